// Package world is the tools' side of an investigation: a recorded incident
// (metrics, logs, change records) and the read-only tools that look at it.
//
// A world is a folder: world.json (clock, services, call graph), alert.json
// (the question), metrics/SERVICE.csv, logs/SERVICE.jsonl or .jsonl.gz, and
// changes.jsonl. One reader over [fs.FS] serves folders ([OpenDir], [Open]) and
// the incident that is part of the program ([Demo]). answer.json, NOTICE.md and
// LICENSE lie beside them for people; this package never opens them.
//
// What it promises:
//
//   - A [World] is immutable and safe for concurrent use. Everything is read
//     and summed when it is opened; the folder may change or vanish afterwards.
//     Only the lines of logs are parsed on first use, or by [World.Check].
//   - [World.Call] is a function of the world, the tool and the input: the same
//     call gives the same bytes at any time, in any process. "Now" is the
//     world's own clock, so "the last 24h" of an old incident stays where it was.
//   - A result is always one JSON object in valid UTF-8 with sorted keys, and
//     says by its status whether there was something (ok), nothing (empty, with
//     what there was instead), too much (truncated, with how many of how many)
//     or a mistake in the call (error, with what is allowed).
//   - Nothing a model is shown names the folder or tells which change records
//     are made up.
//
// What it refuses: files that are damaged, ambiguous or newer than the world's
// clock, each by file and line, and symbolic links, so that a world cannot show
// what lies outside of it.
package world
