"""What an audit says where the server chose."""

from unswayed.audit.by_server import _notes_on
from unswayed.audit.results import Interval


def test_a_majority_is_never_accused_without_a_warning() -> None:
    (note,) = _notes_on(Interval(0.52, 0.09, 0.73))
    assert "a colluding majority looks like honest users" in note
    assert _notes_on(Interval(0.1, 0.05, 0.3)) == ()
