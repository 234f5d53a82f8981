"""Gives the checkout's ``ArrayRef`` one more constructor, in a generated copy.

``int64_t`` is ``long long`` on macOS and ``long`` here. The MPS backend keeps
shapes in ``std::vector<long long>`` and passes them as ``IntArrayRef``, which
only the constructor added here makes possible. Layout and symbols of the class
stay as they are.
"""

from __future__ import annotations

import sys
from pathlib import Path

ANCHOR = "  /// @name Simple Operations\n"
CONSTRUCTOR = """\
  // int64_t by its macOS name.
  template <
      typename U = T,
      typename = std::enable_if_t<std::is_same_v<U, long>>>
  /* implicit */ ArrayRef(const std::vector<long long>& values)
      : Data(reinterpret_cast<const T*>(values.data())),
        Length(values.size()) {
    static_assert(sizeof(T) == sizeof(long long));
  }

"""


def main() -> None:
    """Copies the header ``argv[1]`` to ``argv[2]`` with the constructor in it."""
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    before, anchor, after = source.read_text().partition(ANCHOR)
    if not anchor:
        sys.exit(f"{source}: no place for a constructor; cmake/array_ref.py expects {ANCHOR!r}")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(before + CONSTRUCTOR + anchor + after)


if __name__ == "__main__":
    main()
