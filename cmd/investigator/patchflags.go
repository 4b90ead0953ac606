package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"investigator/internal/faults"
	"investigator/internal/ledger"
	"investigator/internal/recorder"
)

func patchFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "drop", Usage: "remove what the JSON `POINTER` names"},
		&cli.StringSliceFlag{Name: "set", Usage: "`POINTER=JSON`: replace or add a value"},
		&cli.StringFlag{Name: "replace", Usage: "`JSON or @FILE` in place of the whole"},
		&cli.BoolFlag{Name: "empty", Usage: "the tool result holds nothing"},
		&cli.StringFlag{Name: "error", Usage: "the call fails with this `TEXT`"},
		&cli.StringFlag{Name: "fault", Usage: "a named fault: " + faultNames()},
		&cli.BoolFlag{Name: "edit", Usage: "edit the event in $EDITOR"},
		&cli.StringFlag{Name: "insert", Usage: "a call that never happened: `JSON or @FILE` {\"tool\",\"input\",\"result\"}"},
		&cli.StringFlag{Name: "patch", Usage: "a `FILE` with RFC 6902 operations"},
	}
}

func faultNames() string {
	var names []string
	for _, f := range faults.Faults() {
		names = append(names, f.Name)
	}
	return strings.Join(names, ", ")
}

type patchOptions struct {
	drop, set                             []string
	replace, error, fault, insert, patch  string
	empty, edit, errorGiven, replaceGiven bool
	blank                                 string // a flag that was given without its value
}

func patchOptionsOf(c *cli.Context) patchOptions {
	blank := ""
	for _, name := range []string{"fault", "insert", "patch"} {
		if c.IsSet(name) && c.String(name) == "" {
			blank = name
		}
	}
	return patchOptions{
		blank: blank,
		drop:  c.StringSlice("drop"), set: c.StringSlice("set"), replace: c.String("replace"), empty: c.Bool("empty"),
		error: c.String("error"), fault: c.String("fault"), edit: c.Bool("edit"), insert: c.String("insert"), patch: c.String("patch"),
		errorGiven: c.IsSet("error"), replaceGiven: c.IsSet("replace"),
	}
}

// none reports whether no patch was asked for.
func (o patchOptions) none() bool {
	return len(o.drop)+len(o.set) == 0 && !o.replaceGiven && !o.empty && !o.errorGiven && o.fault == "" && !o.edit && o.insert == "" && o.patch == "" && o.blank == ""
}

// fits refuses a patch flag without a value, which would count as no patch, and
// no patch where the default one does not apply.
func (o patchOptions) fits(c *recorder.Cassette, e ledger.Event) error {
	if o.blank != "" {
		return usagef("investigator fork --help shows what it takes", "--%s: expected a value, found none", o.blank)
	}
	if !o.none() || e.Type == ledger.ToolReturned {
		return nil
	}
	events, err := c.Events()
	if err != nil {
		return err
	}
	var results []string
	for _, r := range events {
		if r.Type == ledger.ToolReturned {
			results = append(results, strconv.Itoa(r.Seq))
		}
	}
	return usagef(
		fmt.Sprintf("say what to change, as in --set '/POINTER=JSON', or take a tool result: --at %s", strings.Join(results, ", ")),
		"no patch given, and the default, the fault %s, is for tool results: event %d is %s", faults.Default, e.Seq, e.Type)
}

// words repeats the patch flags for a command line to copy.
func (o patchOptions) words() string {
	var out []string
	add := func(flag, value string) { out = append(out, flag+" "+shellQuote(value)) }
	for _, d := range o.drop {
		add("--drop", d)
	}
	for _, s := range o.set {
		add("--set", s)
	}
	for _, f := range []struct {
		flag, value string
		given       bool
	}{
		{"--replace", o.replace, o.replaceGiven}, {"--error", o.error, o.errorGiven}, {"--fault", o.fault, o.fault != ""},
		{"--insert", o.insert, o.insert != ""}, {"--patch", o.patch, o.patch != ""},
	} {
		if f.given {
			add(f.flag, f.value)
		}
	}
	if o.empty {
		out = append(out, "--empty")
	}
	if o.edit {
		out = append(out, "--edit")
	}
	return strings.Join(out, " ")
}

func shellQuote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-@=:,") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// build makes the patch of the flags.
func (o patchOptions) build(sh *shell, e ledger.Event) (faults.Patch, error) {
	if o.none() {
		return faults.Named(faults.Default), nil
	}
	var parts []faults.Patch
	for _, d := range o.drop {
		parts = append(parts, faults.Drop(d))
	}
	for _, s := range o.set {
		p, err := parseSet(s)
		if err != nil {
			return faults.Patch{}, err
		}
		parts = append(parts, p)
	}
	whole, err := o.whole(sh, e)
	if err != nil {
		return faults.Patch{}, err
	}
	return faults.Join(append(parts, whole...)...)
}

// whole makes the patches that stand alone.
func (o patchOptions) whole(sh *shell, e ledger.Event) ([]faults.Patch, error) {
	var parts []faults.Patch
	if o.replaceGiven {
		doc, err := textOrFile(o.replace)
		if err != nil {
			return nil, err
		}
		parts = append(parts, faults.Replace(doc))
	}
	if o.empty {
		parts = append(parts, faults.Empty())
	}
	if o.errorGiven {
		parts = append(parts, faults.Fail(o.error))
	}
	if o.fault != "" {
		parts = append(parts, faults.Named(o.fault))
	}
	for _, from := range []func() (*faults.Patch, error){o.fromInsert, o.fromFile, func() (*faults.Patch, error) { return o.fromEditor(sh, e) }} {
		p, err := from()
		if err != nil {
			return nil, err
		}
		if p != nil {
			parts = append(parts, *p)
		}
	}
	return parts, nil
}

func parseSet(s string) (faults.Patch, error) {
	pointer, value, found := strings.Cut(s, "=")
	if !found {
		return faults.Patch{}, usagef(`--set '/deploys/0/id="v839"'`, "--set: expected POINTER=JSON, found %q", s)
	}
	return faults.Set(pointer, json.RawMessage(value))
}

func textOrFile(s string) (json.RawMessage, error) {
	name, isFile := strings.CutPrefix(s, "@")
	if !isFile {
		return json.RawMessage(s), nil
	}
	return readPatch(name)
}

// readPatch reads a file that a flag names.
func readPatch(name string) ([]byte, error) {
	if name == "" {
		return nil, usagef("write the file's name behind the @", "read patch: expected @FILE, found @")
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, hint(fmt.Errorf("read patch: %w", err), "check the path of the patch; @FILE and --patch FILE name a file with JSON")
	}
	return b, nil
}

func (o patchOptions) fromInsert() (*faults.Patch, error) {
	if o.insert == "" {
		return nil, nil
	}
	doc, err := textOrFile(o.insert)
	if err != nil {
		return nil, err
	}
	var in faults.Insert
	if err := json.Unmarshal(doc, &in); err != nil {
		return nil, usagef(`--insert '{"tool":"list_deploys","input":{"service":"cart"},"result":{"deploys":[]}}'`, "--insert: %v", err)
	}
	return &faults.Patch{Insert: &in}, nil
}

func (o patchOptions) fromFile() (*faults.Patch, error) {
	if o.patch == "" {
		return nil, nil
	}
	b, err := readPatch(o.patch)
	if err != nil {
		return nil, err
	}
	p, err := faults.Parse(b)
	if err != nil {
		return nil, err
	}
	return &p, nil
}

// fromEditor opens what pointers point into in $EDITOR and takes what comes
// back in its place.
func (o patchOptions) fromEditor(sh *shell, e ledger.Event) (*faults.Patch, error) {
	if !o.edit {
		return nil, nil
	}
	editor := sh.getenv("VISUAL")
	if editor == "" {
		editor = sh.getenv("EDITOR")
	}
	if strings.TrimSpace(editor) == "" {
		return nil, usagef("export EDITOR=vi", "--edit: neither VISUAL nor EDITOR names an editor")
	}
	f, err := os.CreateTemp("", "investigator-*.json")
	if err != nil {
		return nil, fmt.Errorf("edit event: %w", err)
	}
	defer os.Remove(f.Name())
	if err := writeIndented(f, editable(e)); err != nil {
		return nil, fmt.Errorf("edit event: %w", err)
	}
	words := append(strings.Fields(editor), f.Name())
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = sh.in, sh.err, sh.err
	if err := cmd.Run(); err != nil {
		return nil, hint(fmt.Errorf("edit event: %s: %w", editor, err), "set VISUAL or EDITOR to an editor that waits and ends with 0; nothing was changed")
	}
	b, err := os.ReadFile(f.Name())
	if err != nil {
		return nil, fmt.Errorf("edit event: %w", err)
	}
	p := faults.Replace(b)
	return &p, nil
}

// editable is the part of an event that pointers point into.
func editable(e ledger.Event) json.RawMessage {
	if e.Type != ledger.ToolReturned {
		return e.Data
	}
	var d struct {
		Result json.RawMessage `json:"result"`
	}
	if json.Unmarshal(e.Data, &d) != nil {
		return e.Data
	}
	return d.Result
}
