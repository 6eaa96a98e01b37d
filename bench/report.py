#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes docs/performance.md from what bench/run wrote.

usage: report.py [--results DIR] [--out FILE]
"""
import argparse
import json
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ORDER = ["step_one_rank", "step_dp2", "step_tp2", "step_pp2", "layouts",
         "zero_peers", "zero_memory", "collectives", "first_step", "overlap"]

HEAD = """\
<!-- Made by bench/report.py from bench/results/*.json: measure again with
     `make bench`, do not edit. -->
# Performance

Every figure names the command that makes it. Programs that are compared run in
turn (theirs, ours, theirs, ours, …) on the same cores; a figure is the median
of the rounds, a ratio how many times faster triax is (above 1: faster), and
beside it stand the lowest and the highest ratio of one round. A step's figure
leaves out the first step of a run. Of memory the ratio is a share of theirs
(target ≤), or what was saved as a share of what the formula says (target 1 ±).
"""


def load_results(folder):
    results = {}
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        if name.endswith(".json"):
            with open(os.path.join(folder, name)) as file:
                result = json.load(file)
            results[result["claim"]] = result
    known = [name for name in ORDER if name in results]
    return [results[name]
            for name in known + sorted(set(results) - set(known))]


def number(value):
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def target_text(point):
    if "ratio" in point:
        sign = {"faster": "≥", "share": "≤",
                "saving": "1 ±"}[point.get("kind", "faster")]
    else:
        sign = "≥" if point["is_higher_better"] else "≤"
    return f"{sign} {point['target']:g}"


def target_cells(point):
    if point["target"] is None:
        return ["–", ""]
    return [target_text(point),
            "reached" if point["is_reached"] else "**not reached**"]


def row(cells):
    return "| " + " | ".join(cells) + " |"


def name_cell(point):
    return point["name"] + (f" ({point['note']})" if point["note"] else "")


def ratio_table(points):
    lines = [row(["", "theirs", "triax", "unit", "ratio", "rounds", "target",
                  ""]), "|---|--:|--:|---|--:|---|--:|---|"]
    for point in points:
        ratios = point["round_ratios"]
        lines.append(row([
            name_cell(point), number(point["theirs_median"]),
            number(point["ours_median"]), point["unit"],
            f"{point['ratio']:.2f}",
            f"{min(ratios):.2f} to {max(ratios):.2f}"]
            + target_cells(point)))
    return lines


def value_table(points):
    lines = [row(["", "triax", "unit", "rounds", "target", ""]),
             "|---|--:|---|---|--:|---|"]
    for point in points:
        values = point["ours"]
        lines.append(row([
            name_cell(point), number(point["ours_median"]), point["unit"],
            f"{number(min(values))} to {number(max(values))}"]
            + target_cells(point)))
    return lines


def machine_text(result):
    machine = result["machine"]
    facts = [machine["cpu"] or "unknown CPU",
             f"{machine['cores']} cores (used: {machine['cores_used']})",
             f"{machine['memory_gib']} GiB", f"Linux {machine['kernel']}",
             f"LibTorch {machine['libtorch']}", machine["compiler"],
             f"governor {machine['governor'] or 'unknown'}"]
    if machine["hypervisor"]:
        facts.append("a virtual machine")
    return "; ".join(map(str, facts)) + (
        f"; before the first round: load {result['load_before'][0]:g}, cores "
        f"{100 * result['busy_before']:.0f} % busy")


def section(result):
    lines = [f"## {result['title']}", "",
             f"`{result['command']}`, {result['started'][:10]}, "
             f"{result['rounds']} rounds.", ""]
    ratios = [point for point in result["points"] if "ratio" in point]
    values = [point for point in result["points"] if "ratio" not in point]
    if ratios:
        lines += ratio_table(ratios) + [""]
    if values:
        lines += value_table(values) + [""]
    for note in result["notes"]:
        lines += [note, ""]
    lines += ["Each round ran, in this order:", "", "```"]
    lines += [side["command"] for side in result["sides"]] + ["```", ""]
    lines += ["Machine: " + machine_text(result) + ".", ""]
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results",
                        default=os.path.join(ROOT, "bench/results"))
    parser.add_argument("--out",
                        default=os.path.join(ROOT, "docs/performance.md"))
    options = parser.parse_args()
    results = load_results(options.results)
    if not results:
        sys.exit(f"report.py: {options.results} has no results; run bench/run")
    quick = [result["claim"] for result in results if result["is_quick"]]
    if quick:
        sys.exit(f"report.py: {', '.join(quick)} in {options.results} came "
                 "from bench/run --quick; its figures mean nothing")
    lines = [HEAD]
    for result in results:
        lines += section(result)
    with open(options.out, "w") as file:
        file.write("\n".join(lines).rstrip("\n") + "\n")


if __name__ == "__main__":
    main()
