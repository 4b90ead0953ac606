package recorder

import (
	"encoding/json"
	"errors"
	"fmt"

	"investigator/internal/edge"
	"investigator/internal/ledger"
)

// ForeignMember is the header member (in Extra) of a cassette whose events were
// derived from the traffic of an agent that is not ours.
const ForeignMember = "foreign"

// Foreign is what is known of such an agent.
type Foreign struct {
	Client string `json:"client,omitempty"` // the product that its User-Agent names first
	Tag    string `json:"tag,omitempty"`    // what the run was called by its agent

	// Start is the data of run.started as the agent's requests begin, where a
	// fork edited it.
	Start json.RawMessage `json:"start,omitempty"`
}

// Foreign says whose run this is, nil for a run of our own loop.
func (c *Cassette) Foreign() *Foreign {
	raw, found := c.header.Extra[ForeignMember]
	if !found {
		return nil
	}
	var f Foreign
	_ = json.Unmarshal(raw, &f) // the member alone says that it is foreign
	return &f
}

// Taken is one return with its events, as Took takes them.
type Taken struct {
	Call   edge.Call
	Return edge.Return
	Events []ledger.Event
}

// TookAll records several returns, in order: all of them are on the disk, by one
// sync, when it returns nil. run.finished must not be among their events. After
// an error none of them is, and the Writer refuses what comes after.
func (w *Writer) TookAll(list []Taken) error {
	if err := w.out.Trim(); err != nil { // of lines over padding, a later one may reach the disk sooner
		return w.takeBack(err)
	}
	next := *w
	text, put := w.text[:0], int64(0)
	for _, t := range list {
		var err error
		if text, err = next.encode(text, t); err != nil {
			w.err = err // what later lines may refer to was noted for lines that are not there
			if bad := w.leave(put); bad != nil {
				err = errors.Join(err, bad)
			}
			return err
		}
		if len(text) < piece {
			continue
		}
		if err := w.put(text); err != nil {
			return w.takeBack(err)
		}
		put, text = put+int64(len(text)), text[:0]
	}
	if put == 0 && len(text) == 0 {
		return nil
	}
	if err := w.finish(text); err != nil {
		return w.takeBack(err)
	}
	w.size += put + int64(len(text))
	w.become(next, text)
	return nil
}

// piece is how much is handed to the system at once: what fits a processor's
// cache beside the lines it is made of.
const piece = 64 << 10

// finish hands over the last lines, and makes all of them durable.
func (w *Writer) finish(text []byte) error {
	if len(text) > 0 {
		if err := w.put(text); err != nil {
			return err
		}
	}
	return w.out.Sync()
}

// leave removes lines that were handed over before one that could not be made.
func (w *Writer) leave(put int64) error {
	if put == 0 {
		return nil
	}
	return errors.Join(w.out.Truncate(w.size), w.out.Sync())
}

// encode appends the line of a return and moves w behind it.
func (w *Writer) encode(dst []byte, t Taken) ([]byte, error) {
	if err := w.ready(t.Events); err != nil {
		return nil, err
	}
	next, l, err := w.line(t.Call, t.Return, t.Events)
	if err != nil {
		return nil, fmt.Errorf("record event %d: %w", t.Events[0].Seq, err)
	}
	start := len(dst)
	dst = next.finishLine(l.append(dst), start)
	if err := readsBack(dst[start:], l); err != nil {
		return nil, fmt.Errorf("record event %d: %w", t.Events[0].Seq, err)
	}
	w.known.took(l.ID, t.Call.Kind, t.Return.Body)
	*w = next
	return dst, nil
}

// Finish seals and closes the cassette of a run that ended after its last
// return, which was recorded before anybody knew.
func (w *Writer) Finish(finished ledger.Event) error {
	if err := w.ready([]ledger.Event{finished}); err != nil {
		return err
	}
	if finished.Type != ledger.RunFinished || w.count == 0 {
		return fmt.Errorf("seal after event %d: expected run.finished after a return, found %s", w.seq, finished.Type)
	}
	if err := w.out.Trim(); err != nil {
		return w.takeBack(err)
	}
	next := *w
	if err := w.write(next.appendSeal(nil, finished), unchecked); err != nil {
		return err
	}
	w.become(next, nil)
	return w.Close()
}
