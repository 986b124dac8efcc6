"""`edgelora chat` with a form for its answers."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.integration


async def test_a_schema_in_a_file_bounds_the_answer(command, tmp_path):
    schema = tmp_path / "person.json"
    schema.write_text('{"type": "object", "title": "Zoë"}', encoding="utf-8")
    assert await command("chat", "-m", "Hi", "--json-schema", str(schema)) == "Hello there.\n"
    sent = (await command.gateway.worker.calls.get()).request.options.constraint
    assert sent.json_schema == '{"type": "object", "title": "Zoë"}'


async def test_what_is_wrong_with_a_schema_is_said(command, tmp_path):
    schema = tmp_path / "person.json"
    schema.write_text('{"type": "object", "not": {}}', encoding="utf-8")
    await command("chat", "-m", "Hi", "--json-schema", str(schema), status=1)
    assert "options.constraint.json_schema uses not, which is not supported" in command.err
    schema.write_bytes(b"\xff\xfe")
    await command("chat", "-m", "Hi", "--json-schema", str(schema), status=1)
    assert "give a file with a JSON schema in UTF-8" in command.err


async def test_an_expression_is_for_trusted_tenants(command):
    await command("chat", "-m", "Hi", "--regex", "[a-z]+", status=1)
    assert "takes the role trusted" in command.err
    admin = await command.gateway.admin()
    await admin.update_tenant("acme", role="trusted")
    await command("chat", "-m", "Hi", "--regex", "[a-z]+")
    sent = (await command.gateway.worker.calls.get()).request.options.constraint
    assert sent.regex == "[a-z]+"


async def test_an_answer_has_one_form(command, tmp_path):
    schema = tmp_path / "person.json"
    schema.write_text("{}")
    await command("chat", "-m", "Hi", "--json-schema", str(schema), "--regex", "a", status=2)
    assert "--regex goes with no --json-schema" in command.err
