# SPDX-License-Identifier: Apache-2.0
"""What a figure depends on: the machine, its software and its load."""
import os
import platform
import re
import subprocess


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
