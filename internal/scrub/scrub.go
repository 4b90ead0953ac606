// Package scrub removes credentials from text before it is recorded.
//
// A tool may print what it should not: an access key, a presigned URL, a
// bearer token. Scrub replaces such values by a mark that says what was there.
// It runs at the edge, before the loop sees a result, so that the live run, its
// cassette and every replay hold the same bytes. The recorder uses Find to
// refuse a line that still holds a secret, which is the second barrier and not
// the place where secrets are removed.
//
// Values are recognised by shape (AWS access key ids, Bedrock API keys, signed
// JSON web tokens) or by the name beside them (X-Amz-Signature=…,
// aws_secret_access_key: …, Authorization: Bearer …). Names match in any case.
// A bearer token that no name stands beside is known by a digit in it, since
// words follow "bearer" too. A password in prose has no shape and is not found.
//
// Scrubbing JSON text keeps it JSON: no quote is ever removed, and a backslash
// only with the n, r or t it escapes, inside a key block; a number, true, false or
// null becomes a mark in quotes. Scrubbing twice changes nothing more. An escape
// can hide a secret, in JSON inside a text of JSON too: JSON scrubs what could be.
// Canonicalise after it, since a member's name may have been a secret.
//
// The package is pure.
package scrub

import (
	"bytes"
	"regexp"
	"strings"
	"sync"
)

// rule is one kind of secret. Its pattern's group 1 is what is removed.
// Every match contains one of the anchors, in any case if the anchor has no
// capitals; they keep the pattern from running over text that cannot match.
type rule struct {
	kind    string
	anchors []string
	pattern func() *regexp.Regexp // compiled when an anchor is first met
}

// edge begins a value: nothing, an escape of JSON or of a URL, or a character no
// value holds. sep stands between a name and its value, in JSON, in JSON inside JSON,
// in URLs, ini files and headers. A backslash in it is taken with what it escapes,
// or the value would begin inside an escape. A value on the next line is not beside
// the name.
const (
	edge = `(?:^|\\[nrtbf]|\\u[0-9A-Fa-f]{4}|%[0-9A-Fa-f]{2}|[^A-Za-z0-9_-])`
	gap  = `(?:\\*["' ]|\t|\\+t|\\+u[0-9A-Fa-f]{4}){0,8}`
	sep  = gap + `(?:[:=]|%3[dD])` + gap
)

// rules is never modified. A pattern is compiled once, and only if text comes by
// that holds one of its anchors: compiling all of them would cost every start
// of the program more than a millisecond.
var rules = []rule{
	newRule("aws access key id", `(?:_|-|`+edge+`)((?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16})\b`, "AKIA", "ASIA", "ABIA", "ACCA"),
	newRule("bedrock api key", `\\b(edrock-api-key-[A-Za-z0-9+/]{24,}={0,2})`, `\bedrock-api-key-`), // its b may be of an escape
	newRule("bedrock api key", edge+`(ABSK[A-Za-z0-9+/]{24,}={0,2}|bedrock-api-key-[A-Za-z0-9+/]{24,}={0,2})`, "ABSK", "bedrock-api-key-"),
	newRule("aws signature", `(?i)(?:x-amz-signature`+sep+`|credential=[^\n]{0,400}?signature=)([0-9a-f]{2,})`, "signature"),
	newRule("aws credential scope", `(?i)(?:x-amz-credential`+sep+`|aws4-hmac-sha256 credential=)([A-Za-z0-9]{4,})`, "x-amz-credential", "credential="),
	newRule("aws session token", `(?i)(?:x-amz-security-token|aws_?session_?token)`+sep+`([A-Za-z0-9+/=%_.-]{8,})`, "security-token", "session_token", "sessiontoken"),
	newRule("aws session token", `(?i)session_?token`+sep+`([A-Za-z0-9+/=%_.-]{60,})`, "session_token", "sessiontoken"),
	newRule("aws secret access key", `(?i)(?:aws_?secret_?key|secret_?access_?key)`+sep+`([A-Za-z0-9/+=]{40})(?:[^A-Za-z0-9/+=]|$)`, "secretkey", "secret_key", "secretaccess", "secret_access"),
	newRule("bearer token", `(?i)authorization`+sep+`bearer +([A-Za-z0-9+/=_.~-]{8,})`, "authorization"),
	newRule("basic credentials", `(?i)authorization`+sep+`basic +([A-Za-z0-9+/=_-]{8,})`, "authorization"),
	newRule("bearer token", `(?i)bearer +([A-Za-z+/=_.~-]{0,60}[0-9][A-Za-z0-9+/=_.~-]{15,})`, "bearer "),
	newRule("api key", `(?i)x-api-key`+sep+`([A-Za-z0-9+/=_.~-]{8,})`, "x-api-key"),
	newRule("json web token", edge+`(eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,})`, ".eyJ"),
	newRule("private key", `-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----((?:[A-Za-z0-9+/=\s]|\\+[nrt]){16,})`, "PRIVATE KEY-----"),
}

func newRule(kind, pattern string, anchors ...string) rule {
	return rule{kind, anchors, sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })}
}

// Scrub returns b without secrets and how many it removed. It returns b itself
// when there are none; b is never modified.
func Scrub(b []byte) ([]byte, int) {
	count := 0
	for again := true; again; { // what is removed may bring two parts of another together
		again = false
		for _, r := range candidates(b) {
			var n int
			b, n = r.replace(b)
			count, again = count+n, again || n > 0
		}
	}
	return b, count
}

// Find names the first kind of secret that Scrub would remove, "" if there is
// none.
func Find(b []byte) string {
	for _, r := range candidates(b) {
		if r.pattern().Match(b) {
			return r.kind
		}
	}
	return ""
}

// Mark is what stands where a secret was.
func Mark(kind string) string { return "[removed: " + kind + "]" }

func (r rule) replace(b []byte) ([]byte, int) {
	found := r.pattern().FindAllSubmatchIndex(b, -1)
	if len(found) == 0 {
		return b, 0
	}
	var out []byte
	done := 0
	for _, at := range found {
		if at[2] < done {
			continue // a part of a literal, which is gone
		}
		quote := missingQuote(b, at[2])
		out = append(append(out, b[done:at[2]]...), quote+Mark(r.kind)+quote...)
		done = at[3]
		if quote != "" {
			done = len(b) - len(bytes.TrimLeft(b[done:], "+-.0123456789Eaeflnrstu")) // the rest of a number or a word
		}
	}
	return append(out, b[done:]...), len(found)
}

// missingQuote is the quote that a mark needs to be JSON where a number, true,
// false or null stood: the one behind the member's name, with its backslashes. It
// is empty for values that stand in quotes, and in other text.
func missingQuote(b []byte, value int) string {
	before, found := bytes.CutSuffix(bytes.TrimRight(b[:value], " \t"), []byte(":"))
	before, named := bytes.CutSuffix(bytes.TrimRight(before, " \t"), []byte(`"`))
	if !found || !named || !strings.ContainsRune("-0123456789tfn", rune(b[value])) {
		return ""
	}
	if slashes := before[len(bytes.TrimRight(before, `\`)):]; len(slashes)%2 == 1 {
		return string(slashes) + `"`
	}
	return `"`
}

// candidates lists the rules that could match b, in order.
func candidates(b []byte) []rule {
	found := anchored(b)
	if found == 0 {
		return nil
	}
	var out []rule
	for i, r := range rules {
		if found&(1<<i) != 0 {
			out = append(out, r)
		}
	}
	return out
}
