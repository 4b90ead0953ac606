package recorder

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/scrub"
)

// Format is the format this build writes, and the highest it reads.
const Format = 1

// Header is the head of a cassette: what the run is, where it came from, and
// its run.started.
type Header struct {
	Format       int             `json:"format"` // set by the writer
	Tool         string          `json:"tool,omitempty"`
	Run          string          `json:"run"`
	Started      string          `json:"started,omitempty"` // RFC 3339
	World        *World          `json:"world"`
	RecordedWith string          `json:"recorded_with,omitempty"`
	Parent       *Parent         `json:"parent"`
	Models       []ModelSwap     `json:"models,omitempty"` // other models from a fork point on
	Start        json.RawMessage `json:"start"`            // the data of run.started, canonical once read or written
	StartSum     string          `json:"start_sum"`        // set by the writer

	// Extra holds members that this build does not know, as they were read.
	Extra map[string]json.RawMessage `json:"-"`

	// begun is what follows from Start, if a cassette was read with it.
	begun *begun
}

// begun is what follows from a run.started. The headers of a parent and of its
// forks share it, so that a sweep reads the beginning once. It is never
// modified.
type begun struct {
	state loop.State
	event ledger.Event
	sum   ledger.Sum
	check func() error  // what checkStart says
	text  func() []byte // the data as it stands in a header
}

func begin(start json.RawMessage) (*begun, error) {
	state, first, err := loop.New(start)
	if err != nil {
		return nil, err
	}
	return &begun{
		state: state, event: first, sum: ledger.Sum{}.Add(first),
		check: sync.OnceValue(func() error { return checkStart(first.Data) }),
		text:  sync.OnceValue(func() []byte { return appendRaw(nil, first.Data) }),
	}, nil
}

// begin is what follows from the header's Start.
func (h Header) begin() (*begun, error) {
	if h.begun != nil && bytes.Equal(h.begun.event.Data, h.Start) {
		return h.begun, nil
	}
	return begin(h.Start)
}

// World names what the tools looked at. Name is not a path.
type World struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
}

// ModelSwap says that a fork put another model in the chair after an event. Price
// is by what its tokens count against the run's limit on money; nil if there is
// no limit, or if they count by the price there was.
type ModelSwap struct {
	At    int         `json:"at"`
	Model string      `json:"model"`
	Price *loop.Price `json:"price,omitempty"`
}

// Parent is the run that a fork was made from.
type Parent struct {
	Run    string          `json:"run"`
	Ledger string          `json:"ledger"` // the parent's ledger sum, at its seal or its last event
	File   string          `json:"file"`   // base name only
	At     int             `json:"at"`     // the fork point
	Patch  json.RawMessage `json:"patch,omitempty"`
	Mode   string          `json:"mode,omitempty"` // live or halt
}

// The fixed lines around the header.
const (
	preamble    = "---\nversion: 2\n"
	headerKey   = "investigator: "
	listLine    = "interactions:\n"
	sealKey     = "seal: "
	sumMember   = `,"sum":"`
	sumTail     = len(sumMember) + 64 + len(`"}`)
	firstLineNo = 5 // of the first interaction
)

// prepared is a header made ready to write.
type prepared struct {
	header Header
	text   []byte // the bytes before the first interaction
	chain  [sha256.Size]byte
	begin  loop.State
	sum    ledger.Sum
}

func prepare(h Header) (prepared, error) {
	b, err := h.begin()
	if err != nil {
		return prepared{}, err
	}
	h.Format, h.Start, h.StartSum, h.begun = Format, b.event.Data, b.sum.String(), b
	if h.Parent != nil {
		p := *h.Parent
		p.File = filepath.Base(strings.ReplaceAll(p.File, `\`, "/"))
		h.Parent = &p
	}
	if err := checkHeader(h); err != nil {
		return prepared{}, err
	}
	text, chain, err := encodeHeader(h)
	if err != nil {
		return prepared{}, err
	}
	if kind := scrub.Find(text); kind != "" {
		err = fmt.Errorf("the header holds a secret (%s); remove it from the note or the patch", kind)
	}
	return prepared{header: h, text: text, chain: chain, begin: b.state, sum: b.sum}, err
}

// checkHeader refuses what must never stand in a header that is prepared: paths
// of the machine, secrets, and JSON that YAML readers cannot take.
func checkHeader(h Header) error {
	fields := map[string]string{"tool": h.Tool, "run": h.Run, "started": h.Started, "recorded_with": h.RecordedWith}
	if h.World != nil {
		fields["world.name"], fields["world.digest"] = h.World.Name, h.World.Digest
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if v := fields[name]; isPath(v) {
			return fmt.Errorf("header %s: expected a name, found the path %q; a cassette holds no paths of the machine it was made on", name, v)
		}
	}
	return h.begun.check()
}

func checkStart(canonical []byte) error {
	if kind := scrub.Find(canonical); kind != "" {
		return fmt.Errorf("run.started holds a secret (%s); remove it from the task, its context or the prompt", kind)
	}
	return checkYAML(canonical)
}

func isPath(s string) bool {
	return strings.HasPrefix(s, "/") || strings.HasPrefix(s, "~") || strings.HasPrefix(s, `\\`) ||
		len(s) > 2 && s[1] == ':' && (s[2] == '\\' || s[2] == '/')
}

// yaml.v3 takes member names up to 1,024 characters and limits nesting.
const (
	maxName  = 1000
	maxDepth = 1000
)

func checkYAML(canonical []byte) error {
	depth := 0
	for i := 0; i < len(canonical); i++ {
		switch canonical[i] {
		case '{', '[':
			if depth++; depth > maxDepth {
				return fmt.Errorf("run.started is nested deeper than %d levels, which other readers of the cassette refuse", maxDepth)
			}
		case '}', ']':
			depth--
		case '"':
			start := i
			for i++; i < len(canonical) && canonical[i] != '"'; i++ {
				if canonical[i] == '\\' {
					i++
				}
			}
			if i+1 < len(canonical) && canonical[i+1] == ':' && i-start > maxName {
				return fmt.Errorf("run.started has a member name of %d bytes (%.40q…); at most %d can be recorded", i-start-1, canonical[start+1:i], maxName)
			}
		}
	}
	return nil
}

// encodeHeader gives the bytes before the first interaction, and their sum. The
// data of run.started, nearly all of a header, stand in their place as they are.
func encodeHeader(h Header) (text []byte, chain [sha256.Size]byte, err error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	start := h.begun.text()
	h.Start = nil
	if err := enc.Encode(h); err != nil {
		return nil, chain, fmt.Errorf("encode header: %w", err)
	}
	around := bytes.TrimSuffix(b.Bytes(), []byte("}\n"))
	const key = `"start":`
	at := bytes.LastIndex(around, []byte(key+"null,")) + len(key)
	text = append(make([]byte, 0, len(start)+len(around)+512), preamble+headerKey...)
	text = append(appendRaw(text, around[:at]), start...)
	text = appendRaw(text, around[at+len("null"):])
	for _, name := range slices.Sorted(maps.Keys(h.Extra)) {
		text = append(appendText(append(text, ','), strings.ToValidUTF8(name, "\uFFFD")), ':')
		canon, err := ledger.Canon(h.Extra[name])
		if err != nil {
			return nil, chain, fmt.Errorf("encode header member %q: %w", name, err)
		}
		text = appendRaw(text, canon)
	}
	sum := sha256.New()
	sum.Write(text)
	tail := len(text)
	text = hex.AppendEncode(append(text, sumMember...), sum.Sum(chain[:0]))
	text = append(text, "\"}\n"+listLine...)
	sum.Write(text[tail:])
	sum.Sum(chain[:0])
	return text, chain, nil
}

// decodeHeader reads the header's JSON. The caller has checked its sum.
func decodeHeader(text []byte) (Header, error) {
	var h Header
	if err := json.Unmarshal(text, &h); err != nil {
		return h, err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return h, err
	}
	for _, known := range []string{"format", "tool", "run", "started", "world", "recorded_with", "parent", "models", "start", "start_sum", "sum"} {
		delete(all, known)
	}
	if len(all) > 0 {
		h.Extra = all
	}
	var err error
	h.Start, err = ledger.Canon(h.Start)
	return h, err
}
