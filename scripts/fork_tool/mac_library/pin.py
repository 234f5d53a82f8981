"""The table `mac_library` of `base.toml`: what the wheel is made of, by hash."""

from pathlib import Path

from fork_tool.base.pin import DebianFile, Download, Pin, PinnedFile
from fork_tool.base.pin_values import at, read_pin_file, Text
from fork_tool.common.errors import ForkToolError


class OfficialWheel(PinnedFile):
    """A wheel of the package index, for one version of Python."""

    python: Text


class _Headers(DebianFile):
    python: Text


class MacPin(Pin):
    """All that the wheel is made of, besides the checkout."""

    macos: Text = at("mac_library", "macos")
    # Of the SDK, as in the official wheel: some libraries of macOS act by it.
    sdk: Text = at("mac_library", "sdk")
    platform: Text = at("mac_library", "platform")
    official_platform: Text = at("mac_library", "official_platform")
    tools: tuple[Text, ...] = at("mac_library", "tools")
    official: tuple[OfficialWheel, ...] = at("mac_library", "wheels")
    fmt_package: DebianFile = at("mac_library", "fmt")
    header_packages: tuple[_Headers, ...] = at("mac_library", "headers")

    @property
    def fmt(self) -> Download:
        """The package of the library that PyTorch's sources include."""
        return self.fmt_package.download(self.archives)

    @property
    def headers(self) -> dict[str, Download]:
        return {package.python: package.download(self.archives) for package in self.header_packages}

    def official_wheel(self, python: str) -> OfficialWheel:
        wheels = {wheel.python: wheel for wheel in self.official}
        try:
            return wheels[python]
        except KeyError:
            raise ForkToolError(
                f"There is no official wheel of torch {self.wheel_version} for Python {python}: give one of {', '.join(wheels)}."
            ) from None


def load_mac_pin(path: Path) -> MacPin:
    return read_pin_file(path, MacPin)
