# SPDX-License-Identifier: Apache-2.0
"""What a claim is: a list of sides, measured one after the other in each
round, and of points: what is compared, and the target."""
import dataclasses

from sides import PEER, TRIAX, Side, require

TOKENS = "data/bench_tokens"  # written by bench/make_tokens.py
LLAMA = "bench/llama_s.toml"
TINY = ["model.hidden_size=64", "model.intermediate_size=172",
        "model.num_hidden_layers=2", "model.num_attention_heads=4"]
LOSS_TOLERANCE = 0.02  # of two first losses: untrained, on random tokens


@dataclasses.dataclass
class Point:
    """A ratio of `ours` and `theirs`, or, without theirs, a value of ours
    against the target. The kinds of ratio, and what the target is then:
      faster  how many times faster ours is; at least
      share   ours ÷ theirs; at most
      saving  (theirs - ours) ÷ expected; how far from 1 it may be"""
    name: str
    key: str
    unit: str
    ours: str
    theirs: str | None
    target: float | None
    is_higher_better: bool = True
    factor: float = 1.0  # what ours is multiplied with before it is compared
    note: str = ""
    kind: str = "faster"
    expected: float | None = None


@dataclasses.dataclass
class Claim:
    name: str
    title: str
    sides: list[Side]
    points: list[Point]
    rounds: int = 5
    # Pairs of sides that must start with like losses: they do the same work.
    alike: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    # Pairs of sides and the keys of which both have the same in each round.
    equal: list[tuple[str, str, list[str]]] = dataclasses.field(
        default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)


def require_step_programs(with_peer):
    require(TRIAX, "run `make build`")
    if with_peer:
        require(PEER[0], "run tools/setup_bench.sh")
    for end in (".bin", ".idx"):
        require(TOKENS + end, f"run bench/make_tokens.py {TOKENS}")


def model_of(is_quick):
    return ("llama-tiny", TINY) if is_quick else ("llama-s", [])


def steps_of(is_quick):
    return 3 if is_quick else 6
