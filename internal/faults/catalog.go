package faults

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"investigator/internal/ledger"
)

// Info describes a fault.
type Info struct {
	Name   string   `json:"name"`
	Does   string   `json:"does"`   // what the event looks like after it
	Like   string   `json:"like"`   // what in production looks so
	Events []string `json:"events"` // types it can be applied to
}

// Default is the fault of a fork without a patch.
const Default = "missing"

type entry struct {
	Info
	edit func(s *edit) *Error
}

// Faults lists the faults in the order they are shown.
func Faults() []Info {
	var infos []Info
	for _, e := range catalog() {
		infos = append(infos, e.Info)
	}
	return infos
}

func catalog() []entry {
	tool := []string{ledger.ToolReturned}
	return []entry{
		{Info{"missing", "the last record of the result's one array is gone; with no record left a status of ok becomes empty", "a record that was never written, or is filtered by a permission", tool}, onRecords(1, dropLast)},
		{Info{"empty", "the result's one array, or its text, holds nothing; its status says empty", "a wrong index, tenant or time zone", tool}, emptyResult},
		{Info{"error", "the call fails: no answer within 30 s", "a source that is down when it is needed", []string{ledger.ToolReturned, ledger.ModelResponded}}, timeout},
		{Info{"truncated", "the first half of the array is left; its status says truncated", "a page limit, a result cap", tool}, onRecords(2, firstHalf)},
		{Info{"stale", "the newer half of the records, by their time, is not there yet", "a replica or an index that lags behind", tool}, onRecords(2, olderHalf)},
		{Info{"duplicated", "every record is there a second time, after the last", "a page fetched twice, delivery at least once", tool}, onRecords(1, twice)},
		{Info{"reordered", "the records stand in reverse", "a changed default sort order", tool}, onRecords(2, reversed)},
		{Info{"units", "every number within the records is a thousand times as large", "seconds that became milliseconds", tool}, onRecords(1, eachNumber(times1000))},
		{Info{"nulls", "every number within the records is null", "a collector that lost the values and kept the rows", tool}, onRecords(1, eachNumber(toNull))},
		{Info{"cut", "the turn stops at its output limit, before its calls", "max_tokens set too low", []string{ledger.ModelResponded}}, cutTurn},
	}
}

func find(name string) (entry, *Error) {
	var names []string
	for _, e := range catalog() {
		if e.Name == name {
			return e, nil
		}
		names = append(names, e.Name)
	}
	return entry{}, fault(BadPatch, "one of "+strings.Join(names, ", "), "unknown fault %q", name)
}

func (s *edit) applyFault(name string) *Error {
	e, err := find(name)
	if err != nil {
		return err
	}
	if !slices.Contains(e.Events, s.event.Type) {
		return fault(NotPatchable, "point the fault at such an event, or change this one with --set", "the fault %s is for %s, not for %s", name, strings.Join(e.Events, " and "), s.event.Type)
	}
	if err := e.edit(s); err != nil {
		err.What = fmt.Sprintf("the fault %s: %s", name, err.What)
		return err
	}
	return nil
}

// records is the one array of a result.
type records struct {
	pointer string
	list    [][]byte
	status  string // what the result's status is to become, "" to leave it
}

// onRecords makes a fault of a change to at least that many records.
func onRecords(least int, change func(r *records) *Error) func(s *edit) *Error {
	return func(s *edit) *Error {
		r, err := findRecords(s.doc)
		if err != nil {
			return err
		}
		if inner, found := r.series(); found && len(r.list) < least {
			r = inner
		}
		if n := len(r.list); n < least {
			return fault(NotApplicable, "choose another event, or set what is there with --set", "expected at least %s at %s, found %d", counted(least, "record"), quotePointer(r.pointer), n)
		}
		if err := change(&r); err != nil {
			return err
		}
		return s.apply(r.ops(s.doc))
	}
}

// series returns the points of the one series that the records are: the one
// array of a lone record, if it holds objects. A metric's answer looks so.
func (r records) series() (records, bool) {
	if len(r.list) != 1 || r.list[0][0] != '{' {
		return records{}, false
	}
	inner, err := findRecords(r.list[0])
	if err != nil || len(inner.list) == 0 || slices.ContainsFunc(inner.list, func(p []byte) bool { return p[0] != '{' }) {
		return records{}, false
	}
	inner.pointer = r.pointer + "/0" + inner.pointer
	return inner, true
}

// ops puts the changed records and their status into the result. Counts and
// windows stay as they are, as in a source that does not know what it lacks.
func (r records) ops(doc []byte) []operation {
	ops := []operation{{Op: "replace", Path: r.pointer, Value: arrayOf(r.list)}}
	if r.status == "" && len(r.list) == 0 && statusOf(doc) == "ok" {
		r.status = "empty" // an answer without records that says ok is none a tool would give
	}
	if r.status != "" && r.pointer != "" && statusOf(doc) != "" {
		ops = append(ops, operation{Op: "replace", Path: "/status", Value: ledger.AppendString(nil, r.status)})
	}
	return ops
}

func arrayOf(list [][]byte) json.RawMessage {
	out := []byte{'['}
	for i, item := range list {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, item...)
	}
	return append(out, ']')
}

// node is a value with its place.
type node struct {
	path  []string
	value []byte
}

// findRecords finds the one array of a result: the result itself, or the single
// array at the least depth of its objects at which there is any.
func findRecords(doc []byte) (records, *Error) {
	for level := []node{{nil, doc}}; len(level) > 0; {
		var arrays, next []node
		for _, n := range level {
			switch n.value[0] {
			case '[':
				arrays = append(arrays, n)
			case '{':
				for _, m := range members(n.value) {
					next = append(next, node{append(slices.Clip(n.path), m.Name), m.Value})
				}
			}
		}
		switch len(arrays) {
		case 0:
			level = next
			continue
		case 1:
			return records{pointer: join(arrays[0].path), list: elements(arrays[0].value)}, nil
		}
		var names []string
		for _, n := range arrays {
			names = append(names, join(n.path))
		}
		return records{}, fault(NotApplicable, pointAt(arrays), "expected one array in the result, found %s", strings.Join(names, ", "))
	}
	return records{}, fault(NotApplicable, "change a member with --set POINTER=JSON, or let the call fail with --error TEXT", "expected one array in the result, found none: %s", contents(doc, ""))
}

// pointAt says how to name what one of several arrays holds.
func pointAt(arrays []node) string {
	for _, n := range arrays {
		if count := len(elements(n.value)); count > 0 {
			return fmt.Sprintf("point at what you mean, like --drop %s/%d", join(n.path), count-1)
		}
	}
	return fmt.Sprintf("point at what you mean, like --drop %s", join(arrays[0].path))
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
