import errno
import os
import subprocess

import pytest
from tests.support.asking import failure_of, make_target

from agentv.providers.local.cli_settings import CliSettings


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC])
def test_a_system_out_of_resources_is_retried(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(subprocess, "Popen", refuse)
    failure = failure_of(make_target("cli", CliSettings(command_template="true")))

    assert (failure.kind, failure.retryable) == ("transport", True)
    assert failure.message == f"cannot start 'true': {os.strerror(number)}"
