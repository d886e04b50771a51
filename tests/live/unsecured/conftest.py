"""One lab without security, with the default intervals, for the long forms that need one."""

import pytest


@pytest.fixture(scope="session")
def lab_settings(settings_with):
    """Those of the lab that the tests of this folder share."""
    return settings_with()


@pytest.fixture(scope="session")
def lab(lab_settings, running, until_group_ends):
    """The lab that the tests of this folder share; a test that injects a fault must cure it."""
    return until_group_ends.enter_context(running(lab_settings))
