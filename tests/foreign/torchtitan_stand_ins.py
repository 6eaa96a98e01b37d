# SPDX-License-Identifier: Apache-2.0
"""Import this before torchtitan: what it imports and neither its configs nor
its trainer's checks need (data, monitors, Triton's kernels) need not be
installed. Each stand-in is a module that has every name, as an empty class."""
import importlib.abc
import importlib.machinery
import sys
import types

NAMES = ("datasets", "tokenizers", "torchdata", "torch.utils.tensorboard",
         "torchtitan.models.moe.kernels")


class StandIn(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name in NAMES or name.startswith(tuple(f"{n}." for n in NAMES)):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return StandIn(spec.name)

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, Finder())
