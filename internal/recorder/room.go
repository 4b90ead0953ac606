package recorder

import (
	"fmt"
	"math"

	"investigator/internal/converse"
)

const (
	// maxRequest is how many bytes the messages and the other members of one
	// rebuilt request may be. The proxy takes 26 MB from an agent, and a byte
	// that is no UTF-8 becomes three.
	maxRequest = 80 << 20
	// perMessage is what a message, or what fills a hole, costs beside its bytes.
	perMessage = 80
	// maxRebuilt bounds the budget of a cassette of very many lines.
	maxRebuilt = 32 << 30
	// maxHeld is how many bytes of rebuilt requests a cassette holds.
	maxHeld = 64 << 20
)

// budgetOf is how many bytes the requests of a cassette may add to each other in
// all. An agent that changes its first message sends all of them again with
// every request, so nothing less than a request for every line would do.
func budgetOf(size, lines int) int64 {
	return max(64*int64(size)+1<<20, min(int64(lines)*maxRequest, maxRebuilt))
}

// ample is a budget that nothing exhausts.
func ample() *int64 {
	n := int64(math.MaxInt64)
	return &n
}

// room is what may yet be rebuilt. A stored request of a few bytes may stand for
// any number of them, by naming one large text again and again.
type room struct {
	one int    // bytes of this request
	all *int64 // bytes of all requests of the cassette
}

func (r *room) take(n int) error {
	r.one -= n
	*r.all -= int64(n) + perMessage
	switch {
	case r.one < 0:
		return fmt.Errorf("the whole request is larger than %d MB, which no agent could have sent", maxRequest>>20)
	case *r.all < 0:
		return fmt.Errorf("the stored requests repeat more text than an honest recording could")
	}
	return nil
}

// rebuilt are the requests that a cassette holds: those that were rebuilt last.
type rebuilt struct {
	requests map[int]converse.Request
	order    []held // oldest first
	size     int
}

// hold keeps a request, and gives up what was held longest. Requests share
// messages, but each counts whole, since it holds all of its own for itself once
// the others are gone.
func (r *rebuilt) hold(id int, req converse.Request) {
	r.drop(id)
	if r.requests == nil {
		r.requests = map[int]converse.Request{}
	}
	size := weight(req)
	r.requests[id] = req
	r.order, r.size = append(r.order, held{id, size}), r.size+size
	for r.size > maxHeld && len(r.order) > 1 {
		r.drop(r.order[0].id)
	}
}

// drop gives up a request, if it is held; the oldest at no cost.
func (r *rebuilt) drop(id int) {
	if _, found := r.requests[id]; !found {
		return
	}
	delete(r.requests, id)
	at := 0
	for r.order[at].id != id {
		at++
	}
	r.size -= r.order[at].size
	if at == 0 {
		r.order = r.order[1:]
		return
	}
	r.order = append(r.order[:at], r.order[at+1:]...)
}

// weight is how many bytes a request holds.
func weight(req converse.Request) int {
	return req.Messages.Size() + perMessage*(req.Messages.Len()+1) + len(req.Rest.JSON()) + len(req.Model)
}
