from services.gateway.dashboard.history import History


def test_points_are_kept_for_as_long_as_the_window():
    history = History(window_s=10.0)
    for second in range(30):
        history.add(float(second), {"at": second})
    assert [point["at"] for point in history.points()] == list(range(19, 30))


def test_never_more_than_the_bound_however_fast_they_come():
    history = History(window_s=10.0, max_points=5)
    for number in range(1000):
        history.add(number / 1000, {"at": number})
    assert [point["at"] for point in history.points()] == [995, 996, 997, 998, 999]
