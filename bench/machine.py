# SPDX-License-Identifier: Apache-2.0
"""What a figure depends on: the machine, its software and its load."""
import os
import platform
import re
import subprocess
import time


def _first_line(path):
    try:
        with open(path) as file:
            return file.readline().strip()
    except OSError:
        return None


def _field(path, name):
    try:
        with open(path) as file:
            match = re.search(rf"^{name}\s*:\s*(.*)$", file.read(), re.M)
    except OSError:
        return None
    return match.group(1) if match else None


def _memory_gib():
    total = _field("/proc/meminfo", "MemTotal")
    return round(int(total.split()[0]) / 2**20, 1) if total else None


def _program_versions(triax):
    result = subprocess.run([triax, "--version"], capture_output=True,
                            text=True, check=False)
    text = result.stdout
    libtorch = re.search(r"LibTorch ([^)\s]+)", text)
    compiler = re.search(r"^compiler: (.*)$", text, re.M)
    return {"triax": text.splitlines()[0] if text else None,
            "libtorch": libtorch.group(1) if libtorch else None,
            "compiler": compiler.group(1) if compiler else None}


def load_average():
    return [round(value, 2) for value in os.getloadavg()]


def _cpu_times(cores):
    with open("/proc/stat") as file:
        rows = {line.split()[0]: list(map(int, line.split()[1:9]))
                for line in file if re.match(r"cpu\d", line)}
    # user nice system idle iowait irq softirq steal
    chosen = [rows[f"cpu{core}"] for core in cores]
    idle = sum(row[3] + row[4] for row in chosen)
    return sum(map(sum, chosen)), idle


def busy_share(seconds=1.0):
    """Of the cores this process may use, stolen time counted as busy."""
    cores = os.sched_getaffinity(0)
    total, idle = _cpu_times(cores)
    time.sleep(seconds)
    new_total, new_idle = _cpu_times(cores)
    return round(1 - (new_idle - idle) / max(1, new_total - total), 3)


def describe_machine(triax):
    """A dict of plain values; None where the system does not say."""
    cores = sorted(os.sched_getaffinity(0))
    facts = {
        "cpu": _field("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count(),
        "cores_used": ",".join(map(str, cores)),
        "memory_gib": _memory_gib(),
        "kernel": platform.release(),
        "governor": _first_line(
            f"/sys/devices/system/cpu/cpu{cores[0]}/cpufreq/scaling_governor"),
        "hypervisor": _first_line("/sys/hypervisor/type")
        or ("yes" if " hypervisor" in (_field("/proc/cpuinfo", "flags") or "")
            else None),
    }
    facts.update(_program_versions(triax))
    return facts
