#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The example of each page of docs/rules, given to `triax check`: the rule that
the page is of must answer, with the words and the figures that the page shows.

usage: rule_pages_test.py TRIAX. Needs nothing but Python.

A block is a config (toml, json, yaml), a script (bash), or a command with the
file that it is given (sh, text). What it says in its remarks is looked for in
the answer: "use …" word for word, and sizes and shares. Lines set in by four
spaces are what is printed, and lines of a text that look like a finding.
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

PAGES = pathlib.Path(__file__).parent.parent.parent / "docs" / "rules"
FILES = {"toml": "run.toml", "json": "ds_config.json", "yaml": "config.yaml",
         "bash": "pretrain.sh"}
KINDS = {"yaml": ["--kind", "nanotron"], "bash": ["--kind", "megatron"]}
CORES = len(os.sched_getaffinity(0))
PLAIN = '[data]\npath = "words.txt"\n'

# Files that an example stands beside.
BESIDE = {
    "data-too-short": {"poem.txt": "x" * 900},
    "hf-config": {"mixtral/config.json": '{"model_type": "mixtral"}'},
    "hf-override": {"gpt2/config.json": '{"model_type": "gpt2"}'},
    "lr-not-scaled": {
        name: '{"train_batch_size": %d, "optimizer": {"type": "AdamW", '
              '"params": {"lr": 3e-4}}}' % batch
        for name, batch in (("new.json", 256), ("old.json", 64))},
    "run-dir-exists": {"runs/kjv/run.log": ""},
    "slow-choice": {
        "cluster.toml": 'hosts = 8\ndevices_per_host = 8\n'
                        'device_memory = "80GiB"\nnetwork = "50GB/s"\n'},
    "tp-crosses-hosts": {"cluster.toml": "hosts = 2\ndevices_per_host = 8\n"},
    "unreadable": {"runs/x": ""},
}
OPTIONS = {"pipeline-zero": ["--world", "8"],
           "experts-divide": ["--world", "8"],
           "tp-crosses-hosts": ["--cluster", "cluster.toml"]}
# What a page shows of another machine, of a set of data, or of verify, which
# tests/check/check_test.cpp compares.
ELSEWHERE = {"offload-disk-full", "left-out"}
OTHER_LINES = ("model: verify needs", "model.vocab_size: token number")


def blocks(page):
    """The blocks of the example, and the lines that it says are printed."""
    part = page.split("## Example", 1)[1].split("## The way out")[0]
    fenced = re.findall(r"```(\w+)\n(.*?)```", part, re.S)
    rest = re.sub(r"```\w+\n.*?```", "", part, flags=re.S)
    return fenced, [line[4:] for line in rest.splitlines()
                    if line.startswith("    ")]


def remarks(body):
    return [text.strip() for text in re.findall(r"(?:^|\s)# (.*)", body)]


def put(folder, name, content):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def with_data(text):
    """A run file of triax, with data of its own where the page says none."""
    is_other = "[parallelism]" in text or "[validation]" in text
    return text if "[data]" in text or is_other else text + PLAIN


def override(word):
    """ "parallel.tp=3" as a run file says it."""
    section, _, rest = word.partition(".")
    return f"[{section}]\n{rest}\n"


def run(triax, folder, words):
    done = subprocess.run([triax, "check", *words], cwd=folder, check=False,
                          capture_output=True, text=True, timeout=60)
    return done.stdout + done.stderr


def answer_to_command(triax, folder, rule, body):
    """Of "triax check FILE …", of "triax train FILE …", which checks the same,
    and of "torchrun …"; what follows the line is the file's text."""
    lines = body.splitlines()
    at = next(i for i, line in enumerate(lines)
              if line.startswith(("triax ", "torchrun ")))
    command = lines[at].split("  #")[0].split(" # ")[0]
    words = [word for word in shlex.split(command) if word != "…"]
    rest = "\n".join(lines[at + 1:])
    if words[0] == "torchrun":
        put(folder, "pretrain.sh", " ".join(words) + "\n")
        return run(triax, folder, ["pretrain.sh", *OPTIONS.get(rule, [])])
    words = words[2:]
    if rest.strip():
        put(folder, words[0], rest)
    if words[0] == "run.toml":
        sets = [word for word in words if re.match(r"\w+\.\w+=", word)]
        put(folder, "run.toml", with_data("".join(map(override, sets))))
        words = [word for word in words if word not in sets]
    if rule == "ranks-exceed-cores":
        words[words.index("--ranks") + 1] = str(max(64, 4 * CORES + 1))
    return run(triax, folder, words)


def answer_to_file(triax, folder, rule, language, body):
    name = FILES[language]
    if rule == "hf-unknown-key":
        put(folder, "llama/config.json", body)
        name, body = "run.toml", '[model]\nhf = "llama"\n' + PLAIN
    put(folder, name, with_data(body) if language == "toml" else body)
    return run(triax, folder,
               [name, *KINDS.get(language, []), *OPTIONS.get(rule, [])])


def answer_of(triax, rule, language, body):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        put(folder, "words.txt", "a corpus of words\n" * 10000)
        for beside, content in BESIDE.get(rule, {}).items():
            put(folder, beside, content)
        if language in FILES:
            return answer_to_file(triax, folder, rule, language, body)
        return answer_to_command(triax, folder, rule, body)


def plain(text):
    """Without what differs from machine to machine."""
    text = re.sub(r"this machine has [\d.]+ \wiB", "this machine has …", text)
    return re.sub(r" on \d+ cores", " on … cores", text)


def missing(answer, body, printed):
    """What the page shows and the answer does not hold."""
    shown = [line for line in printed if not line.startswith(OTHER_LINES)]
    for remark in remarks(body):
        if remark.startswith("use "):
            shown.append(remark)
        shown += re.findall(r"\d[\d.,]* (?:[KMGT]iB|%)", remark)
    return [text for text in shown if plain(text) not in plain(answer)]


def is_of_smaller_machine(rule):
    bytes_here = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return (rule == "memory-exceeds-machine" and bytes_here > 140 << 30
            or rule == "tp-exceeds-cores" and CORES >= 8)


def problems_of(triax, path):
    rule = path.stem
    fenced, printed = blocks(path.read_text())
    if rule in ELSEWHERE or is_of_smaller_machine(rule):
        return []
    language, body = fenced[0]
    first = body.splitlines()[0]
    if re.search(r": (note|warning|error)\[", first):
        return [] if f"[{rule}]" in first else ["it shows another rule"]
    answer = answer_of(triax, rule, language, body)
    if f"[{rule}]" not in answer:
        return [f"the example is not answered by the rule, but:\n{answer}"]
    return [f"it shows {text!r}, and the answer is:\n{answer}"
            for text in missing(answer, body, printed)]


def main():
    bad = 0
    for path in sorted(PAGES.glob("*.md")):
        if path.stem == "README":
            continue
        for problem in problems_of(os.path.abspath(sys.argv[1]), path):
            print(f"{path.name}: {problem}\n")
            bad += 1
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
