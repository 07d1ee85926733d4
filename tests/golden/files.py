"""The golden files: how they are named, what is in them, and how one for a new tag is written."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import msgspec

from refold.domain.log.envelope import UNKEYED, Event, encode_payload
from refold.infrastructure.log.codec import CODEC, encode_meta, tag_of
from refold.infrastructure.projecting.builtin import PROJECTIONS
from refold.infrastructure.projecting.store import column_texts
from refold.projections.contract import Projection

from .known import ENVELOPES, EVENTS

FOLDER = Path(__file__).parent
EVENT_FOLDER = FOLDER / "events"
ENVELOPE_FILE = FOLDER / "envelope.json"


def current_tags() -> set[str]:
    """Return the tags of all events that can be recorded today."""
    return {event.__struct_config__.tag for event in get_args(CODEC.events)}


def known_events() -> dict[str, list[Event]]:
    """Return the known events by tag."""
    by_tag: dict[str, list[Event]] = defaultdict(list)
    for event in EVENTS:
        by_tag[tag_of(event)].append(event)
    return dict(by_tag)


def view(value: Any) -> Any:
    """Return plain msgpack data as JSON can show it; bytes become `{"bytes": text}` or `{"hex": digits}`."""
    if isinstance(value, dict):
        return {key: view(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [view(inner) for inner in value]
    if isinstance(value, bytes):
        try:
            return {"bytes": value.decode()}
        except UnicodeDecodeError:
            return {"hex": value.hex()}
    return value


def event_content(events: Sequence[Event]) -> dict[str, Any]:
    """Return what a file says of the known events of one tag."""
    payloads = [encode_payload(event) for event in events]
    return {
        "tag": tag_of(events[0]),
        "examples": [{"hex": payload.hex(), "view": view(msgspec.msgpack.decode(payload))} for payload in payloads],
    }


def envelope_content() -> dict[str, Any]:
    """Return what the file of the envelope says: what is covered by a digest, the digest, the stored meta."""
    examples = []
    for given in ENVELOPES:
        meta, position = given["meta"], given["position"]
        stored = encode_meta(meta)
        covered = [
            given["previous"], given["stream"], given["version"], position.slice, position.number,
            given["recorded_at"], meta.actor, meta.correlation_id, meta.causation, meta.idempotency_key,
            meta.key_id, given["payload"],
        ]  # fmt: skip
        covered += [meta.fingerprint] if meta.fingerprint is not None else []
        examples.append({
            "covered": msgspec.msgpack.encode(covered).hex(),
            "digest": UNKEYED.digest(**given).hex(),
            "stored_meta": stored.hex() if stored else None,
            "view": view(covered),
        })  # fmt: skip
    return {"hash": "blake2b, 32 bytes", "examples": examples}


def event_files(folder: Path = EVENT_FOLDER) -> Iterator[tuple[str, dict[str, Any]]]:
    """List the files of events, each with the tag it is named after."""
    for path in sorted(folder.glob("*.json")):
        yield path.stem, json.loads(path.read_text(encoding="utf-8"))


def rows_file(projection: Projection, folder: Path = FOLDER) -> Path:
    """Return the file with the columns of the rows of a projection, of its present version."""
    return folder / "rows" / f"{projection.name}.v{projection.version}.json"


def write_missing(folder: Path = FOLDER) -> list[Path]:
    """Write the files that do not exist yet, and return them. A file that exists is never touched."""
    wanted: dict[Path, dict[str, Any]] = {
        folder / "events" / f"{tag}.json": event_content(events) for tag, events in known_events().items()
    }
    wanted[folder / "envelope.json"] = envelope_content()
    wanted |= {rows_file(one, folder): column_texts(one.row) for one in PROJECTIONS}
    missing = {path: content for path, content in wanted.items() if not path.exists()}
    for path, content in missing.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    return list(missing)
