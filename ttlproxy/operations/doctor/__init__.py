"""`ttlproxy doctor`: finds what is wrong with an upstream, why it matters, and the command that
fixes it.

`examination` has the table of checks. Each check is a function, in `server`, `rights`, `content`
and others, that examines a `target` and yields `finding`s. `fix` repairs what can be repaired from
here. Other packages call `examined`.
"""

from ttlproxy.operations.doctor.examination import CHECKS, SAMPLE, examined
from ttlproxy.operations.doctor.finding import Finding, Severity, as_json, as_text, exit_code

__all__ = [
    "CHECKS",
    "SAMPLE",
    "Finding",
    "Severity",
    "as_json",
    "as_text",
    "examined",
    "exit_code",
]
