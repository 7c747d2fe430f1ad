"""The shell commands of the README, run in order as a person would."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
COMMAND = Path(sys.executable).with_name("unswayed")


def test_every_command_of_the_readme_works(tmp_path: Path) -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    commands = [shlex.split(line, comments=True) for line in lines if line.startswith("unswayed ")]
    assert len(commands) >= 6
    for _, *arguments in commands:
        result = subprocess.run(
            [COMMAND, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, f"{arguments}: {result.stderr}"
        assert result.stdout
