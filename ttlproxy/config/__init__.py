"""The settings. Knows what a value may be; reads no flag and no environment.

`settings` declares each of them once, with a kind of `setting`; `checks` compares a setting with
earlier ones, and puts the upstream together. No error of this package repeats text that may contain
a password.
"""

from ttlproxy.config.setting import Setting
from ttlproxy.config.settings import SETTINGS, InvalidSettingsError, Settings

__all__ = ["SETTINGS", "InvalidSettingsError", "Setting", "Settings"]
