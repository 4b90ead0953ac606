// Package recorder writes and reads cassettes, the files of runs.
//
// A cassette is a go-vcr v3 cassette at every moment of its life: a header, one
// interaction a line (JSON in YAML flow style), and a seal once the run has
// finished. docs/cassette.md specifies the format for other readers.
//
// Writing: Create (a file, never an existing one) or NewMemory, then Took for
// each return, which makes the Writer a loop.Sink. When Took returns, the line
// is on the disk and was read again and compared, so what is replayed is what
// the loop saw. Spaces stand behind it until the file is closed. A fork begins
// with CopyPrefix. A line that still holds a secret
// is refused.
//
// Reading: Open verifies every byte by one pass of chained SHA-256 and decodes
// nothing beyond the header; events are projected from the interactions when
// asked for and checked against the ledger sums stored beside them. A last line
// that was cut is dropped and reported as Torn. Damage anywhere is an error
// that names the line. The chain detects damage; it does not prove who wrote
// the file.
//
// Walk is for cassettes that are long and read once: one pass gives every
// interaction with its events and its request, and of the lines that were passed
// nothing stays but their text, from which they are read again when asked for.
//
// A Tape is a cassette used as an edge. Serve gives a cassette's model calls to
// an HTTP client through go-vcr's own Recorder.
//
// A Cassette and a Tape may be used from many goroutines; a Writer by one.
package recorder
