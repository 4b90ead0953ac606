package recorder

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"investigator/internal/converse"
	"investigator/internal/ledger"
)

// readDelta reads a stored request. One that is spelled as encodeDelta spells it
// is read where it stands, and its messages are parts of text; encoding/json
// takes every other, and says what is wrong with it.
func readDelta(text []byte) (delta, error) {
	r := reading{text: text}
	if d := (delta{}); r.delta(&d) && r.at == len(text) {
		return d, nil
	}
	var d delta
	if err := json.Unmarshal(text, &d); err != nil {
		return d, fmt.Errorf("read stored request: %w", err)
	}
	for i := range d.Add {
		if err := d.Add[i].canonise(); err != nil {
			return d, fmt.Errorf("read stored request: /add/%d: %w", i, err)
		}
	}
	return d, nil
}

func (it *item) canonise() (err error) {
	for _, text := range []*json.RawMessage{&it.Message, &it.Template} {
		if *text == nil {
			continue
		}
		if *text, err = ledger.InCanon(*text); err != nil {
			return err
		}
	}
	return nil
}

func (r *reading) delta(d *delta) bool {
	var base int
	d.Base = &base
	var cache string
	ok := r.object(
		member{name: "digest", must: true, read: func() bool { return r.words(&d.Digest) }},
		member{name: "model", must: true, read: func() bool { return r.words(&d.Model) }},
		member{name: "base", must: true, read: func() bool { return r.integer(&base) }},
		member{name: "kept", must: true, read: func() bool { return r.integer(&d.Kept) }},
		member{name: "add", must: true, read: func() bool { return r.items(&d.Add) }},
		member{name: "rest", read: func() bool { return r.value(&d.Rest) }},
		member{name: "rest_from_start", read: func() bool { d.RestFromStart = true; return r.literal("true") }},
		member{name: "cache", read: func() bool { return r.words(&cache) }},
	)
	d.Cache = converse.CacheRule(cache)
	return ok
}

func (r *reading) items(list *[]item) bool {
	return r.list(func() bool {
		var it item
		*list = append(*list, it)
		return r.item(&(*list)[len(*list)-1])
	})
}

// item reads an added message: exactly one of the four.
func (r *reading) item(it *item) bool {
	kinds := 0
	one := func(read bool) bool { kinds++; return read }
	ok := r.object(
		member{name: "s", read: func() bool { return one(r.integer(&it.Start)) }},
		member{name: "r", read: func() bool { it.Answer = new(int); return one(r.integer(it.Answer)) }},
		member{name: "m", read: func() bool { return one(r.value(&it.Message)) }},
		member{name: "t", read: func() bool { return one(r.value(&it.Template)) }},
		member{name: "holes", read: func() bool { return r.list(func() bool { return r.hole(&it.Holes) }) }},
	)
	return ok && kinds == 1 && (it.Template != nil || it.Holes == nil)
}

func (r *reading) hole(list *[]hole) bool {
	var h hole
	ok := r.object(
		member{name: "at", must: true, read: func() bool { return r.words(&h.At) }},
		member{name: "id", must: true, read: func() bool { return r.integer(&h.ID) }},
		member{name: "quoted", read: func() bool { h.Quoted = true; return r.literal("true") }},
	)
	*list = append(*list, h)
	return ok
}

// list reads an array whose length is not known.
func (r *reading) list(element func() bool) bool {
	if !r.take('[') {
		return false
	}
	for first := true; !r.take(']'); first = false {
		if !first && !r.take(',') || !element() {
			return false
		}
	}
	return true
}

// words reads a string in which nothing is escaped.
func (r *reading) words(out *string) bool {
	text := r.plain()
	*out = string(text)
	return text != nil && utf8.Valid(text)
}

// integer reads a number of at most nine digits.
func (r *reading) integer(out *int) bool {
	negative := r.take('-')
	n, start := 0, r.at
	for r.at < len(r.text) && r.text[r.at] >= '0' && r.text[r.at] <= '9' {
		n = n*10 + int(r.text[r.at]-'0')
		if r.at++; r.at-start > 9 {
			return false
		}
	}
	*out = n
	if negative {
		*out = -n
	}
	return r.at > start && (r.text[start] != '0' || r.at == start+1)
}

func (r *reading) literal(word string) bool {
	for _, b := range []byte(word) {
		if !r.take(b) {
			return false
		}
	}
	return true
}

// value reads any value, which becomes a part of the text if that is its
// canonical form, as nearly always.
func (r *reading) value(out *json.RawMessage) bool {
	end := ledger.SkipValue(r.text, r.at)
	if end < 0 {
		return false
	}
	canon, err := ledger.InCanon(r.text[r.at:end:end])
	*out, r.at = canon, end
	return err == nil
}
