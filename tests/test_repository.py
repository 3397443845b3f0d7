"""What the repository promises about itself: one lock, no CUDA, no path of one machine."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
LOCK = [
    Requirement(line.split("#")[0].strip())
    for line in (ROOT / "requirements.txt").read_text().splitlines()
    if line.split("#")[0].strip()
]


def applies(requirement, platform):
    environment = {"sys_platform": platform, "os_name": "nt" if platform == "win32" else "posix"}
    return requirement.marker is None or requirement.marker.evaluate(environment)


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_the_lock_pins_what_the_project_asks_for(platform):
    pinned = {r.name.lower() for r in LOCK if applies(r, platform)}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    asked = [*project["dependencies"], *extras["book"], *extras["test"]]
    assert {Requirement(each).name.lower() for each in asked} <= pinned
    assert all(len(r.specifier) == 1 and str(r.specifier).startswith("==") for r in LOCK)


def test_the_lock_never_asks_for_cuda():
    assert not [r.name for r in LOCK if re.search("nvidia|cuda|triton", r.name)]
    versions = {platform: [str(r.specifier) for r in LOCK if r.name == "torch" and applies(r, platform)]
                for platform in ("linux", "darwin", "win32")}  # fmt: skip
    assert len(versions["linux"]) == 1 and versions["linux"][0].endswith("+cpu")
    assert versions["darwin"] == versions["win32"] == [versions["linux"][0].removesuffix("+cpu")]


def test_torch_here_is_the_cpu_build():
    import torch

    assert torch.version.cuda is None


def test_conda_users_get_the_lock_and_no_other_pins():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    python, pip, items = environment["dependencies"]
    assert re.fullmatch(r"python=3\.\d+", python) and pip == "pip"
    assert [item for item in items["pip"] if not item.startswith("--extra-index-url")] == [
        "--requirement requirements.txt",
        "--editable .",
    ]


def test_the_versions_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == project["version"]


def tracked():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def test_no_file_names_a_path_of_one_machine():
    machine = re.compile(r"(?<![\w./])/(?:" + "|".join(("wo" + "rk", "t" + "mp", "ro" + "ot", "ho" + "me")) + r")/\w")
    texts = [
        path for path in tracked() if path.suffix in {".py", ".md", ".ipynb", ".yml", ".toml", ".txt", ".css", ""}
    ]
    assert len(texts) > 20
    assert not [str(path) for path in texts if machine.search(path.read_text(encoding="utf-8"))]


def test_modules_import_only_from_those_above_them():
    order = ["_checks", "trials", "tasks", "recipes", "networks", "dynamics", "gradient", "store", "training",
             "references", "_blocks", "sectors", "schur", "metrics", "ablation", "nulls", "readout", "statistics",
             "plotting", "bilinear", "_recursion", "_exact", "_stacks", "tensors", "attention",
             "attention_tensors", "baselines", "_damped", "_realisation", "probes", "lifting", "flows", "rates",
             "foreign", "diagnosis", "__main__"]  # fmt: skip
    modules = {path.stem for path in (ROOT / "lib" / "tasksym").glob("*.py")} - {"__init__"}
    assert modules == set(order)
    for place, module in enumerate(order):
        source = (ROOT / "lib" / "tasksym" / f"{module}.py").read_text()
        imported = set(re.findall(r"^from tasksym\.(\w+) import", source, re.M))
        for names in re.findall(r"^from tasksym import (.+)$", source, re.M):
            imported |= set(names.split(", "))
        assert imported <= set(order[:place]), f"{module} imports from below itself"
