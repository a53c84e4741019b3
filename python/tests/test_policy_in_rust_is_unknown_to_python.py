"""Failure: the Python module of a project made of templates/policy lacks its policy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import larder_cache

ROOT = Path(__file__).parents[2]
VALUES = {
    "project-name": "my-policy",
    "crate_name": "my_policy",
    "policy": "my-clock",
    "larder": str(ROOT),
}

#: Object 3 replaces 2, because 1 was hit.
USE = """
import my_policy as lc
assert "my-clock" in lc.policies()["name"].to_pylist()
specs = ["my-clock", "filter(theta=1)+my-clock", "lru"]
rows = lc.replay(lc.Trace([1, 2, 1, 3, 1]), specs, 2)
assert rows["policy"].to_pylist() == specs
assert rows["hits"].to_pylist() == [2, 2, 2]
print(lc.replay(lc.Trace.generate(10_000), ["my-clock", "clock"], 100)["hits"].to_pylist())
import larder_cache.plot
"""


def replaced(text: str) -> str:
    for name, value in VALUES.items():
        text = text.replace(f"{{{{{name}}}}}", value)
    return text


def generate(directory: Path) -> None:
    """Replaces the placeholders in files and their names, as cargo-generate does."""
    directory.mkdir(parents=True, exist_ok=True)
    # Files of an earlier run, of which the template may have fewer now.
    for old in directory.iterdir():
        if old.is_dir() and old.name != "target":
            shutil.rmtree(old)
        elif not old.is_dir():
            old.unlink()
    template = ROOT / "templates/policy"
    for path in template.rglob("*"):
        if path.is_file() and path.name != "cargo-generate.toml":
            made = directory / replaced(str(path.relative_to(template)))
            made.parent.mkdir(parents=True, exist_ok=True)
            made.write_text(replaced(path.read_text()))
    with (directory / "Cargo.toml").open("a") as manifest:
        # The directory is below Larder's, and the project is no part of its workspace.
        manifest.write("\n[workspace]\n")
    shutil.copy(ROOT / "Cargo.lock", directory)


def test_the_template_takes_another_version() -> None:
    template = (ROOT / "templates/policy/pyproject.toml").read_text()
    assert f'"larder-cache=={larder_cache.__version__}"' in template


def python(code: str, modules: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(modules)}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=modules)


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the directory of the installed module."""
    made = ROOT / "target/python"
    # Always the same place: cargo builds all crates anew for a project in another one.
    project = made / "my-policy"
    generate(project)
    # Without optimisation, which takes minutes.
    build = [sys.executable, "-m", "maturin", "build", "--profile", "dev", "--offline", "--out"]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(ROOT / "target")}
    shutil.rmtree(made / "my-wheels", ignore_errors=True)
    built = subprocess.run(
        [*build, made / "my-wheels"], cwd=project, env=environment, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = (made / "my-wheels").glob("*.whl")
    installed = tmp_path_factory.mktemp("modules")
    pip: list[str | Path] = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--target", installed, wheel], check=True)
    return installed


def test_the_policy_is_unknown(modules: Path) -> None:
    used = python(USE, modules)
    assert used.returncode == 0, used.stderr
    mine, clock = used.stdout.strip("[]\n").split(", ")
    assert mine == clock


def test_two_engines_are_mixed(modules: Path) -> None:
    used = python("import larder_cache, my_policy", modules)
    assert "ImportError: larder_cache was imported before my_policy" in used.stderr
