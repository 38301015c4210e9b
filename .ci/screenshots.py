"""Take pictures of the viewer: `./run --group=browser python .ci/screenshots.py [FOLDER]`, by default build/screenshots.

The project in .ci/screenshots/ is run six times, the answers of the last run are labelled in the browser by two
reviewers, and each page is opened in every look. FOLDER gets whole pages, to be looked at. docs/images/ gets the
pictures that the docs show: the upper part of some pages.
"""

import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import yaml
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
PROJECT = Path(__file__).with_name("screenshots")
IMAGES = ROOT / "docs" / "images"
AGENTV = str(Path(sys.executable).with_name("agentv"))
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
RELEASES = range(1, 7)
MAX_HEIGHT = 2_400  # of a picture to be looked at, in CSS pixels
SAMPLE = 80
DISPUTED = "refund-duration"  # a case whose wrong answer one reviewer passes


class Look(NamedTuple):
    """The width of a window in CSS pixels, and its colours."""

    width: int
    scheme: str


LOOKS: Mapping[str, Look] = {
    "light": Look(1280, "light"),
    "dark": Look(1280, "dark"),
    "narrow": Look(390, "light"),
    "narrow-dark": Look(390, "dark"),
}

PAGES: Mapping[str, str] = {
    "runs": "/",
    "verdict": "/r/latest",
    "rows": "/r/latest/rows",
    "rows-failed": "/r/latest/rows?state=fail&tag=returns&sort=score",
    "grid": "/r/latest/grid",
    "grid-differ": "/r/latest/grid?only=differ",
    "row": "/r/latest/case/refund-for-damaged-chair?target=small&prompt=careful&trial=1",
    "comparison": "/compare/latest~1..latest",
    "trend": "/trend/support.yaml",
    "judge": "/judge/helpful",
    "queue": "/q/helpful@latest",
    "categories": "/categories/latest",
}
"""The path of each page."""

SHOWN: Mapping[str, tuple[int, int]] = {
    "grid": (1080, 760),
    "comparison": (1080, 760),
    "row": (1080, 940),
    "review": (1080, 760),
}
"""The pages that the docs show, with the size of the picture in CSS pixels."""


def agentv(folder: Path, *arguments: str) -> None:
    """Call agentv in a folder. A failed gate is no failure here."""
    done = subprocess.run([AGENTV, *arguments], cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode not in (0, 1):
        sys.exit(f"agentv {' '.join(arguments)}\n{done.stdout}{done.stderr}")


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[Sequence[str]]:
    """Start a command of agentv that serves pages until the end of the block; give the addresses that it prints."""
    command = [AGENTV, *arguments, "--no-open"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        addresses = []
        for line in process.stdout or ():
            addresses += [word for word in line.split() if word.startswith("http://")]
            if "Ctrl-C" in line:
                break
        try:
            yield addresses
        finally:
            process.send_signal(signal.SIGINT)


def run_project(folder: Path) -> None:
    """Run every release of the project."""
    shutil.copytree(PROJECT, folder, dirs_exist_ok=True)
    (folder / ".agentv").mkdir()
    for release in RELEASES:
        (folder / "release.txt").write_text(str(release), "utf-8")
        agentv(folder, "run", "support.yaml", "--name", f"release {release}", "--display", "none")


class Camera:
    """Takes pictures of pages in every look."""

    def __init__(self, browser: Browser, folder: Path) -> None:
        self._browser = browser
        self._folder = folder

    def take(self, signed_in: str, name: str, path: str) -> None:
        """Take the pictures of a page, as a person sees it who has opened the address `signed_in`."""
        for look_name, look in LOOKS.items():
            with self._open(signed_in, path, look.width, 800, look.scheme) as page:
                height = min(MAX_HEIGHT, page.evaluate("document.documentElement.scrollHeight"))
                page.set_viewport_size({"width": look.width, "height": height})
                page.screenshot(path=self._folder / f"{name}-{look_name}.png")
        if name in SHOWN:
            for scheme in ("light", "dark"):
                with self._open(signed_in, path, *SHOWN[name], scheme) as page:
                    save_shown(page.screenshot(), IMAGES / f"{name}-{scheme}.png")

    @contextmanager
    def _open(self, signed_in: str, path: str, width: int, height: int, scheme: str) -> Iterator[Page]:
        context = self._browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, device_scale_factor=1.5
        )
        page = context.new_page()
        page.goto(signed_in)
        if path:
            page.goto(f"{signed_in.partition('?')[0].rstrip('/')}{path}")
        page.wait_for_load_state("networkidle")
        page.wait_for_function("() => !document.querySelector('#live')")
        yield page
        context.close()


def save_shown(picture: bytes, path: Path) -> None:
    """Save a picture with at most 64 colours: more are not seen on a page of text."""
    path.parent.mkdir(exist_ok=True)
    colours = Image.open(io.BytesIO(picture)).convert("RGB").quantize(64, dither=Image.Dither.NONE)
    colours.save(path, optimize=True)


def label_all(browser: Browser, link: str, wrong: Mapping[str, str]) -> None:
    """Label all answers of a reviewer but the last two: one with a text of `wrong` fails, with its category."""
    page = browser.new_context().new_page()
    page.goto(link)
    while True:
        position, total = page.locator("h1").inner_text().split(" of ")
        if int(position) >= int(total) - 1:
            break
        answer = page.locator("main").inner_text()
        category = next((category for text, category in wrong.items() if text in answer), "")
        page.get_by_role("radio", name="Fail" if category else "Pass").check()
        page.get_by_role("combobox", name="Category").fill(category)
        page.get_by_role("button", name="Send").click()
        page.wait_for_function(
            "(before) => document.querySelector('h1').innerText !== before", arg=f"{position} of {total}"
        )
    page.context.close()


def take_all(folder: Path, project: Path, browser: Browser) -> None:
    """Take the pictures of all pages of a project that has been run."""
    camera = Camera(browser, folder)
    answers = yaml.safe_load((project / "answers.yaml").read_text("utf-8"))
    strict = {
        answer["wrong"]: "against the policy" if answer["topic"] == "returns" else "no help" for answer in answers.values()
    }
    lenient = {text: category for text, category in strict.items() if text != answers[DISPUTED]["wrong"]}
    review = ["review", "latest", "--sample", str(SAMPLE), "--criterion", "helpful", "--stratify", "verdict", "--overlap", "25%"]
    with serving(project, *review, "--reviewer", "ada", "--reviewer", "ben") as (ada, ben, _):
        label_all(browser, ada, strict)
        label_all(browser, ben, lenient)
        camera.take(ada, "review", "")
    with serving(project, "view") as (link,):
        for name, path in PAGES.items():
            camera.take(link, name, path)


def main() -> None:
    """Take all pictures."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "screenshots")
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        sys.exit("no picture was taken: no Chromium is installed (Debian: apt-get install chromium)")
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["LANG"] = "C.UTF-8"
    with tempfile.TemporaryDirectory() as name, sync_playwright() as driver:
        project = Path(name) / "support-desk"
        run_project(project)
        # This may run as root, where Chromium's own sandbox refuses to start.
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        take_all(folder, project, browser)
        browser.close()
    print(f"pictures of whole pages: {folder}; pictures of the docs: {IMAGES}")


if __name__ == "__main__":
    main()
