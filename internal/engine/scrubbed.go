package engine

import (
	"context"
	"strings"

	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/scrub"
)

// Scrubbed removes secrets from what a model says before the loop or a
// recording sees it. Where it finds one, the exact bytes that came over the
// network are given up for the answer in Converse's shape: a secret may be cut
// over several frames of a stream, and none of it may be kept.
type Scrubbed struct{ Edge edge.Edge }

// Do implements edge.Edge.
func (s Scrubbed) Do(ctx context.Context, call edge.Call) (edge.Return, error) {
	r, err := s.Edge.Do(ctx, call)
	if err != nil || !secretive(r) {
		return r, err
	}
	if r.Body, err = cleanJSON(r.Body); err != nil {
		return r, err
	}
	if r.Wire != nil {
		r.Wire = cleanWire(*r.Wire, r.Body)
	}
	return r, nil
}

func secretive(r edge.Return) bool {
	if _, n := scrub.JSON(r.Body); n > 0 {
		return true
	}
	if r.Wire == nil {
		return false
	}
	for _, a := range r.Wire.Attempts {
		if _, n := scrub.JSON(a.Body); n > 0 || scrub.Find([]byte(a.Err)) != "" {
			return true
		}
	}
	return false
}

// cleanJSON scrubs JSON, and gives body back where there is nothing to do. Made
// canonical after it too, because a replaced member name sorts elsewhere.
func cleanJSON(body []byte) ([]byte, error) {
	canon, err := ledger.InCanon(body)
	if err != nil {
		return nil, err
	}
	clean, n := scrub.JSON(canon)
	if n == 0 {
		return canon, nil
	}
	return ledger.Canon(clean)
}

func cleanWire(w edge.Wire, answer []byte) *edge.Wire {
	attempts := make([]edge.Attempt, len(w.Attempts))
	for i, a := range w.Attempts {
		a.Body, _ = scrub.JSON(a.Body)
		clean, _ := scrub.Scrub([]byte(a.Err))
		a.Err = string(clean)
		attempts[i] = a
	}
	last := &attempts[len(attempts)-1]
	last.Body, last.Header = answer, map[string]string{"Content-Type": "application/json"}
	w.URL = strings.TrimSuffix(w.URL, "-stream")
	w.Attempts = attempts
	return &w
}
