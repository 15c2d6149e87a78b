"""Runs the examples of every public function of the package, and fails where one has none."""

import doctest
import importlib
import inspect
import pkgutil
import sys

import msccl

#: Started by a launcher, not called by programs.
NOT_CALLED = {"msccl.__main__", "msccl._command.main"}


def modules():
    names = [found.name for found in pkgutil.iter_modules(msccl.__path__, "msccl.")]
    return [importlib.import_module(name) for name in names if name not in NOT_CALLED]


def public_functions():
    """Everything in ``msccl.__all__`` and in public modules that can be called, with its name."""
    of_package = [(f"msccl.{name}", getattr(msccl, name)) for name in msccl.__all__]
    open_modules = [one for one in modules() if not one.__name__.split(".")[1].startswith("_")]
    of_modules = [
        (f"{one.__name__}.{name}", value)
        for one in open_modules
        for name, value in vars(one).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == one.__name__
    ]
    for name, value in of_package + of_modules:
        if inspect.isfunction(value):
            yield name, value
        elif inspect.isclass(value):
            for member, function in vars(value).items():
                function = function.fget if isinstance(function, property) else function
                if inspect.isfunction(function) and not member.startswith("_"):
                    yield f"{name}.{member}", function


def main():
    functions = dict(public_functions())
    without = [name for name, it in functions.items() if ">>>" not in (it.__doc__ or "")]
    attempted = failed = 0
    for module in [msccl, *modules()]:
        result = doctest.testmod(module)
        attempted, failed = attempted + result.attempted, failed + result.failed
    print(f"{len(functions)} public functions, {attempted} examples, {failed} failed")
    for name in without:
        print(f"{name} has no example")
    sys.exit(bool(failed or without or len(functions) < 20 or attempted < 40))


if __name__ == "__main__":
    main()
