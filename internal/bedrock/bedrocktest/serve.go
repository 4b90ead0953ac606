package bedrocktest

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxBody is the service's own limit on a request.
const maxBody = 25_000_000

// serve answers one request: read, log, wait, decide, send.
func (s *Server) serve(w http.ResponseWriter, hr *http.Request) {
	if !s.handlers.enter() {
		panic(http.ErrAbortHandler)
	}
	defer s.handlers.leave()
	body, err := io.ReadAll(http.MaxBytesReader(w, hr.Body, maxBody))
	if tooLarge := new(http.MaxBytesError); err != nil && !errors.As(err, &tooLarge) {
		return // the client went away
	}
	op, model, known := route(hr.URL.EscapedPath())
	rec := &Record{Op: op, ModelID: model, Method: hr.Method, Path: hr.RequestURI, Proto: hr.Proto,
		Remote: hr.RemoteAddr, Header: hr.Header.Clone(), Body: body}
	number, arrival := s.journal.open(rec)
	if !wait(hr.Context(), s.opts.FirstByteDelay) {
		return
	}
	req := parseRequest(op, model, rec.Header, body)
	req.Number, req.Arrival, req.Attempt = number, arrival, attempt(hr.Header, arrival)

	var r reply
	fault := ""
	switch {
	case err != nil:
		r = errorReply(op, invalid("Input is too long for requested model."))
	case strings.HasSuffix(hr.URL.Path, "/redirected"):
		r = htmlReply(http.StatusOK)
	case !known || hr.Method != http.MethodPost:
		r = errorReply(op, &APIError{http.StatusNotFound, "UnknownOperationException", "bedrocktest: no operation at " + hr.Method + " " + hr.RequestURI})
	default:
		r, fault = s.decide(req)
	}
	if r.header == nil {
		r.header = http.Header{}
	}
	if r.header.Get("x-amzn-RequestId") == "" {
		r.header.Set("x-amzn-RequestId", requestID(s.opts.Seed, number))
	}
	s.journal.outcome(rec, fault, r.status)
	s.send(hr.Context(), w, r)
}

// decide finds the answer and the fault that was injected into it. A panic of a
// script or predicate becomes an answer, since net/http would hide it in a
// dropped connection, which here looks like a fault.
func (s *Server) decide(req Request) (r reply, fault string) {
	defer func() {
		if p := recover(); p != nil {
			r, fault = errorReply(req.Op, invalid("bedrocktest: panic while answering: %v", p)), ""
		}
	}()
	in := injection{op: req.Op, url: s.URL, slowFirst: s.opts.SlowFirstByte, slowStep: s.opts.SlowStep}
	chosen := s.journal.choose(s.opts.Seed, req)
	var t trouble
	if chosen != nil {
		in.retryAfter = chosen.RetryAfter
		t, _ = findTrouble(chosen.Name)
		if t.instead != nil {
			return t.instead(in), t.name
		}
	}
	r, turn := s.answer(req)
	if chosen == nil && turn.Fault != "" && (turn.FaultAttempts == 0 || req.Attempt <= turn.FaultAttempts) {
		var ok bool
		if t, ok = findTrouble(turn.Fault); !ok {
			return errorReply(req.Op, invalid("bedrocktest: the script names an unknown fault %q", turn.Fault)), ""
		}
		if t.instead != nil {
			return t.instead(in), t.name
		}
	}
	if t.spoil == nil || r.status != http.StatusOK {
		return r, ""
	}
	return t.spoil(in, r), t.name
}

// answer is what happens on a good day: refuse what the service refuses, else
// let the script speak.
func (s *Server) answer(req Request) (reply, Turn) {
	if e := s.refuse(req); e != nil {
		return errorReply(req.Op, e), Turn{}
	}
	switch req.Op {
	case OpCountTokens:
		return jsonReply(object{{"inputTokens", countTokens(req.root)}}), Turn{}
	case OpApplyGuardrail:
		return jsonReply(applyGuardrail(req.root, s.opts.Blocked)), Turn{}
	}
	turn := s.opts.Script(req)
	a := answer{req: req, turn: turn, usage: s.cache.charge(req.ModelID, req.root), id: requestID(s.opts.Seed, req.Number)}
	a.usage.Output = outputTokens(turn.Content)
	if turn.Usage != nil {
		a.usage = *turn.Usage
	}
	a.pad = padding(s.opts.Seed, req.Number)
	// Before the first byte leaves: the echo may come before the last.
	s.reasoning.issue(turn.Content)
	return render(a), turn
}

func (s *Server) refuse(req Request) *APIError {
	if s.opts.RequireAuth && req.Header.Get("Authorization") == "" && req.Header.Get("x-api-key") == "" {
		return &APIError{http.StatusForbidden, "MissingAuthenticationTokenException", "Missing Authentication Token"}
	}
	v := Validator{ContextTokens: s.opts.ContextTokens, Models: s.opts.Models}
	if e := v.checkForm(req.Op, req.ModelID, req.Body, req.decoded); e != nil {
		return e
	}
	if e := v.judge(req.Op, req.ModelID, req.root); e != nil {
		return e
	}
	return s.reasoning.check(req)
}

func countTokens(root any) int {
	if c := mapAt(root, "input", "converse"); c != nil {
		return estimate(c)
	}
	inner, _ := decode(unbase64(textAt(root, "input", "invokeModel", "body")))
	return estimate(inner)
}

// applyGuardrail intervenes at texts it was told of, and at nothing else.
func applyGuardrail(root any, blocked []string) object {
	action, outputs := "NONE", []object{}
	for _, c := range listAt(root, "content") {
		for _, b := range blocked {
			if strings.Contains(textAt(c, "text", "text"), b) {
				action = "GUARDRAIL_INTERVENED"
			}
		}
	}
	if action != "NONE" {
		outputs = append(outputs, object{{"text", "Sorry, the model cannot answer this question."}})
	}
	usage := object{}
	for _, unit := range []string{"topicPolicyUnits", "contentPolicyUnits", "wordPolicyUnits", "sensitiveInformationPolicyUnits",
		"sensitiveInformationPolicyFreeUnits", "contextualGroundingPolicyUnits"} {
		usage = append(usage, member{unit, 0})
	}
	return object{{"action", action}, {"assessments", []object{}}, {"outputs", outputs}, {"usage", usage}}
}

// padding makes the random member p of stream payloads: a prefix of a fixed
// alphabet, of a length that differs by frame and by request.
func padding(seed uint64, number int) func() string {
	const alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	r := rand.New(rand.NewPCG(seed, uint64(number)))
	return func() string { return alphabet[:1+r.IntN(len(alphabet))] }
}

// wait answers false when the request ended before d was over.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// send writes r. It panics with http.ErrAbortHandler where the answer must not
// end cleanly, which net/http turns into a closed connection or stream.
func (s *Server) send(ctx context.Context, w http.ResponseWriter, r reply) {
	if !wait(ctx, r.first) {
		panic(http.ErrAbortHandler)
	}
	if r.status == 0 {
		resetConn(ctx)
		panic(http.ErrAbortHandler)
	}
	for name, values := range r.header {
		w.Header()[http.CanonicalHeaderKey(name)] = values
	}
	body := r.chunks
	if !r.streamed {
		length := 0
		for _, c := range body {
			length += len(c)
		}
		w.Header().Set("Content-Length", strconv.Itoa(length))
	}
	if r.ending != endClean && !r.streamed && len(body) > 0 {
		body = [][]byte{body[0][:len(body[0])/2]}
	}
	w.WriteHeader(r.status)
	if !s.write(ctx, w, body, r.step) {
		panic(http.ErrAbortHandler)
	}
	switch r.ending {
	case endReset:
		resetConn(ctx)
		panic(http.ErrAbortHandler)
	case endShort:
		panic(http.ErrAbortHandler)
	}
}

// write sends chunks and flushes each; with a step it sends bytes.
func (s *Server) write(ctx context.Context, w http.ResponseWriter, chunks [][]byte, step time.Duration) bool {
	flush := http.NewResponseController(w)
	slow := 0
	for _, c := range chunks {
		for step > 0 && len(c) > 0 && slow < s.opts.SlowBytes {
			if _, err := w.Write(c[:1]); err != nil || flush.Flush() != nil || !wait(ctx, step) {
				return false
			}
			c = c[1:]
			slow++
		}
		if _, err := w.Write(c); err != nil || flush.Flush() != nil {
			return false
		}
	}
	return true
}
