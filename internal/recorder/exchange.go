package recorder

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"investigator/internal/edge"
)

// kept lists the response headers a cassette holds. Everything else (dates,
// request ids, retry advice) is about the exchange and not its content.
func kept() []string { return []string{"Content-Type", "X-Amzn-Errortype"} }

func keptHeaders(header map[string]string) map[string][]string {
	out := map[string][]string{}
	for name, value := range header {
		for _, k := range kept() {
			if strings.EqualFold(name, k) {
				out[k] = []string{valid(value)}
			}
		}
	}
	return out
}

func jsonHeaders() map[string][]string {
	return map[string][]string{"Content-Type": {"application/json"}}
}

// valid makes any text one that can stand in a line.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func status(code int) string {
	if code == http.StatusOK { // nearly every one
		return "200 OK"
	}
	return strings.TrimSpace(strconv.Itoa(code) + " " + http.StatusText(code))
}

// modelExchange makes request and response of a model call. It notes the
// request as the base of the next one.
func (w *Writer) modelExchange(call edge.Call, ret edge.Return, l *line) (request, response) {
	w.delta = encodeDelta(w.delta[:0], call.Request, w.base, w.baseID, w.known)
	req := request{Method: http.MethodPost, URL: callURL(call, ret), Headers: w.json, Body: w.delta}
	w.base, w.baseID = call.Request, w.count
	if ret.Wire == nil || len(ret.Wire.Attempts) == 0 {
		code := http.StatusOK
		if ret.Failed {
			code = failureStatus(ret.Body)
		}
		return req, response{Status: status(code), Code: code, Headers: w.json, Body: body(ret.Body)}
	}
	tries := ret.Wire.Attempts
	for _, a := range tries[:len(tries)-1] {
		l.X.Attempts = append(l.X.Attempts, storedAttempt(a))
	}
	final := tries[len(tries)-1]
	if more := (last{valid(final.Err), valid(final.At), valid(final.Took), valid(final.Wait)}); more != (last{}) {
		l.X.Last = &more
	}
	got := response{Status: status(final.Code), Code: final.Code, Headers: keptHeaders(final.Header), Body: final.Body}
	if ret.Origin == edge.Patched && !ret.Wire.Given { // what came over the wire is not what the run saw
		got.Headers, got.Body = w.json, body(ret.Body)
	}
	return req, got
}

func storedAttempt(a edge.Attempt) attempt {
	header := map[string]string{}
	for name, v := range keptHeaders(a.Header) {
		header[name] = v[0]
	}
	return attempt{Code: a.Code, Header: header, Body: a.Body, last: last{valid(a.Err), valid(a.At), valid(a.Took), valid(a.Wait)}}
}

func failureStatus(body json.RawMessage) int {
	f, err := edge.ParseFailure(body)
	if err != nil || f.Status < 100 || f.Status > 599 {
		return 0
	}
	return f.Status
}

func callURL(call edge.Call, ret edge.Return) string {
	switch {
	case ret.Wire != nil && ret.Wire.URL != "":
		return valid(ret.Wire.URL)
	case ret.Origin == edge.Rule || call.Request.Model == "rule":
		return ruleURL
	}
	return modelURL + url.PathEscape(call.Request.Model) + "/converse"
}

func (w *Writer) toolExchange(call edge.Call, ret edge.Return) (request, response) {
	code := http.StatusOK
	if ret.Failed {
		code = http.StatusInternalServerError
	}
	return request{Method: http.MethodPost, URL: toolURL + url.PathEscape(call.Use.Name), Headers: w.json, Body: body(call.Use.Input)},
		response{Status: status(code), Code: code, Headers: w.json, Body: body(ret.Body)}
}
