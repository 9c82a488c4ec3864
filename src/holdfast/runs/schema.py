"""The tables of a store of runs, and how older ones become what they are now."""

from holdfast.runs import spec

VERSION = 2
OF_TYPES = {(str,): "TEXT", (int,): "INTEGER", (float,): "REAL", (bool,): "BOOLEAN", (int, str): "MEMORY"}
COLUMNS = {"BOOLEAN": "INTEGER", "MEMORY": "INTEGER"}  # SQLite has no others
JSON = ("options", "probe")
OF_SPEC = {name: "JSON" if name in JSON else OF_TYPES[spec.CHOICES[name].kinds] for name in spec.FIELDS}
MEASURED = {
    "acc": "REAL", "aaa": "REAL", "forgetting": "REAL", "train_macs": "INTEGER", "eval_macs": "INTEGER",
    "memory_bytes": "REAL", "seconds": "REAL", "train_seconds": "REAL", "updates": "INTEGER",
    "fast_path_agreement": "REAL", "code": "TEXT", "command": "TEXT",
}  # fmt: skip
KINDS = {"title": "TEXT", **OF_SPEC, **MEASURED}
# What specs had not from the beginning is in `more`. The order counts: checksums are of rows.
FIELDS = {name: COLUMNS.get(kind, kind) for name, kind in KINDS.items() if name not in spec.LATER}
SCHEMA = f"""
CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    status TEXT NOT NULL CHECK (status IN ('done', 'failed')),
    why TEXT,
    finished TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    {", ".join(f"{name} {kind}" for name, kind in FIELDS.items())},
    more JSON,
    parts_checksum TEXT,
    checksum TEXT
);
CREATE TABLE evaluations (
    run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    step INTEGER NOT NULL, seen INTEGER NOT NULL, aa REAL NOT NULL, correct JSON NOT NULL, total JSON NOT NULL,
    macs INTEGER,
    PRIMARY KEY (run, step)
) WITHOUT ROWID;
CREATE TABLE probes (
    run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    name TEXT NOT NULL, step INTEGER NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (run, name, step)
) WITHOUT ROWID;
CREATE TABLE artifacts (
    run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    name TEXT NOT NULL, content BLOB NOT NULL, checksum TEXT,
    PRIMARY KEY (run, name)
);
PRAGMA user_version = {VERSION};
"""
PARTS = ("evaluations", "probes", "artifacts")  # tables of what belongs to a run
MIGRATIONS = {  # from a version to the next
    1: """
    ALTER TABLE runs ADD COLUMN parts_checksum TEXT;
    ALTER TABLE runs ADD COLUMN checksum TEXT;
    ALTER TABLE artifacts ADD COLUMN checksum TEXT;
    """,
}
