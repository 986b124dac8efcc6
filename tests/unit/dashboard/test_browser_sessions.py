from services.gateway.dashboard.browser_sessions import SESSION_S, BrowserSessions


def test_a_session_holds_until_it_ends():
    sessions = BrowserSessions()
    token = sessions.begin(100.0)
    assert sessions.is_active(token, 100.0 + SESSION_S - 1)
    assert not sessions.is_active(token, 100.0 + SESSION_S)


def test_a_session_that_was_ended_is_over_and_the_others_go_on():
    sessions = BrowserSessions()
    one, two = sessions.begin(0.0), sessions.begin(0.0)
    sessions.end(one)
    sessions.end(one)
    assert not sessions.is_active(one, 1.0)
    assert sessions.is_active(two, 1.0)


def test_tokens_are_long_and_differ():
    sessions = BrowserSessions()
    tokens = {sessions.begin(0.0) for _ in range(100)}
    assert len(tokens) == 100
    assert min(map(len, tokens)) >= 43


def test_nothing_else_is_a_session():
    sessions = BrowserSessions()
    token = sessions.begin(0.0)
    for guess in ("", "x", token[:-1], token + "x", "\udcff"):
        assert not sessions.is_active(guess, 1.0)


def test_the_oldest_makes_room_for_the_seventeenth():
    sessions = BrowserSessions()
    tokens = [sessions.begin(float(at_s)) for at_s in range(17)]
    assert [sessions.is_active(token, 20.0) for token in tokens] == [False] + [True] * 16
