"""Compile the native engine where there is a C++ compiler; without one the JAX engine does it all.

Everything else is in pyproject.toml. Code for an instruction set is compiled with its own flags,
and chosen when the library is loaded. Nothing is compiled or linked with -ffast-math: infinities
and NaNs keep their meaning, and linking with it would change the arithmetic of the whole process.
"""

import platform
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

NATIVE = Path("src/tensorbnn/engine/native")
COMMON = ["-std=c++17", "-O3", "-g0", "-pthread"]
# Multiplications and additions may be fused; no exceptions of floating-point numbers are handled.
ARITHMETIC = ["-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"]
INSTRUCTION_SETS = {
    "avx512": [
        *("-mavx512f", "-mavx512dq", "-mavx512vl", "-mavx512bw", "-mavx2", "-mfma"),
        "-mprefer-vector-width=512",
    ],
    "avx2": ["-mavx2", "-mfma"],
    "portable": [],
}


class BuildNative(build_ext):
    """Compiles each file of the extension with the flags it needs."""

    def build_extension(self, extension: Extension) -> None:
        """Compile the kernels, then the rest, which says which kernels there are."""
        if self.compiler.compiler_type == "msvc":
            raise CompileError("the native engine needs GCC or Clang")
        kinds = ["portable"]
        if platform.machine().lower() in ("x86_64", "amd64"):
            kinds = list(INSTRUCTION_SETS)
        for kind in kinds:
            flags = COMMON + ARITHMETIC + INSTRUCTION_SETS[kind]
            extension.extra_objects += self._compile(f"kernel_{kind}.cpp", flags)
            extension.define_macros.append((f"TENSORBNN_HAS_{kind.upper()}", "1"))
        # As a system's headers: their warnings are not ours.
        extension.extra_compile_args = [*COMMON, "-isystem", _xla_headers()]
        extension.include_dirs.append(str(NATIVE))
        super().build_extension(extension)

    def _compile(self, name: str, flags: list[str]) -> list[str]:
        return self.compiler.compile(
            [str(NATIVE / name)], output_dir=self.build_temp, extra_postargs=flags
        )

    def get_export_symbols(self, ext: Extension) -> list[str]:
        """None: the library is loaded by its path, not imported."""
        return []


def _xla_headers() -> str:
    try:
        import jaxlib
    except ImportError as error:  # an install with --no-build-isolation
        raise CompileError("the native engine needs jaxlib's headers") from error
    return str(Path(jaxlib.__file__).parent / "include")


setup(
    cmdclass={"build_ext": BuildNative},
    ext_modules=[
        Extension(
            "tensorbnn.engine._native",
            sources=[str(NATIVE / f"{name}.cpp") for name in ("bindings", "dispatch", "batch")],
            depends=[str(path) for path in sorted(NATIVE.glob("*.[ch]pp"))],
            extra_link_args=["-pthread"],
            language="c++",
            optional=True,
        )
    ],
)
