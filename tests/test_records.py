"""What a record promises: the same as a frozen dataclass with keyword-only fields."""

import pytest

from registrar.records import Record


class Point(Record):
    """A record with a default."""

    x: int
    y: int = 0


class Place(Point):
    """A record that adds a field."""

    name: str


class Spot(Point):
    """A record with the same fields as another one."""


def test_a_record_holds_its_values_and_defaults() -> None:
    place = Place(x=1, name="here")
    assert (place.x, place.y, place.name) == (1, 0, "here")
    assert repr(place) == "Place(x=1, y=0, name='here')"


def test_records_are_equal_if_their_class_and_all_their_values_are() -> None:
    assert Point(x=1) == Point(x=1, y=0)
    assert len({Point(x=1), Point(x=1, y=0), Point(x=1, y=2), Spot(x=1)}) == 3
    assert Point(x=1) != Spot(x=1)
    assert Point(x=1) != (1, 0)


@pytest.mark.parametrize("values", [{}, {"y": 1}, {"x": 1, "z": 1}, {"x": 1, "_fields": ()}])
def test_a_missing_or_unknown_field_is_an_error_that_names_it(values: dict[str, int]) -> None:
    with pytest.raises(TypeError, match="Point lacks"):
        Point(**values)


def test_a_record_cannot_be_changed() -> None:
    point = Point(x=1)
    with pytest.raises(AttributeError, match="Point cannot be changed: x"):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(AttributeError, match="Point cannot be changed: x"):
        del point.x
    assert point.x == 1


def test_a_record_can_be_matched_by_its_fields() -> None:
    match Place(x=1, name="here"):
        case Point(x=1, y=found):
            assert found == 0
        case _:
            pytest.fail("it was not matched")
