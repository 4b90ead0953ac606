package foreign

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"investigator/internal/converse"
	"investigator/internal/ledger"
)

// Spoken lists the texts that an answer streams in deltas, each put together of
// its pieces, also those that ReadAnswer leaves out: the thoughts that some models
// tell in OpenAI's dialect, other choices than the first, deltas that this build
// does not know. A secret that is cut in pieces is whole in one of them.
func Spoken(body []byte) [][]byte {
	s := told{}
	for _, e := range toldEvents(body) {
		s.gather(e, "", false)
	}
	var out [][]byte
	for _, place := range slices.Sorted(maps.Keys(s)) {
		out = append(out, s[place])
	}
	return out
}

// toldEvents are the events of a stream of any dialect, as far as they are whole.
func toldEvents(body []byte) (events []json.RawMessage) {
	var all [][]byte
	if len(body) > 0 && body[0] == 0 {
		frames, _, _ := converse.DecodeFrames(body) // those before damage
		for _, f := range frames {
			var c struct {
				Bytes []byte `json:"bytes"`
			}
			if json.Unmarshal(f.Payload, &c) == nil && len(c.Bytes) > 0 {
				f.Payload = c.Bytes
			}
			all = append(all, f.Payload)
		}
	} else {
		all = sseData(body)
	}
	for _, e := range all {
		if canon, err := ledger.Canon(e); err == nil {
			events = append(events, canon)
		}
	}
	return events
}

// Known is a response without the events that this build does not know.
func Known(response json.RawMessage) json.RawMessage {
	const own = "investigator"
	members, err := converse.Members(member(response, own))
	if err != nil {
		return response
	}
	delete(members, "unknownEvents")
	rest, err := ledger.CanonValue(members)
	if err != nil {
		return response
	}
	return with(response, own, rest)
}

// told are texts by their place in the events.
type told map[string][]byte

func (s told) gather(v json.RawMessage, place string, inDelta bool) {
	switch {
	case len(v) == 0:
	case v[0] == '"' && inDelta:
		s[place] = append(s[place], stringOf(v)...)
	case v[0] == '{':
		_ = ledger.EachMember(v, func(name []byte, value json.RawMessage) { // an event is canonical
			s.gather(value, place+"."+string(name), inDelta || string(name) == "delta")
		})
	case v[0] == '[':
		list, _ := elements(v)
		for i, e := range list {
			at := strconv.Itoa(i)
			if index := member(e, "index"); index != nil { // of the choice, or of the call
				at = string(index)
			}
			s.gather(e, place+"/"+at, inDelta)
		}
	}
}
