package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// version is set by the linker in releases.
var version = "dev"

// run executes one command line and returns its exit status.
func run(ctx context.Context, args []string, sh *shell) int {
	app := newApp(sh)
	err := app.RunContext(ctx, onlyHelp(app, args))
	if err == nil {
		err = ctx.Err()
	}
	complain(sh.notes(), err)
	if lost := sh.lost(); lost != nil {
		complain(sh.notes(), lost)
		return statusOf(lost)
	}
	return statusOf(err)
}

func newApp(sh *shell) *cli.App {
	app := &cli.App{
		Name:            "investigator",
		Usage:           "record, replay and fork the runs of tool-using agents on Amazon Bedrock",
		Version:         version,
		HideHelpCommand: true,
		Suggest:         true,
		Writer:          sh.out,
		ErrWriter:       sh.err,
		Description:     exitText,
		// A JSON value has commas of its own.
		DisableSliceFlagSeparator: true,
		// The library would print and exit by itself; statuses are ours.
		ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError:   usageProblem,
		Action:         noVerb,
		Commands: []*cli.Command{
			demoVerb(sh), liveVerb(sh), replayVerb(sh), forkVerb(sh), diffVerb(sh), showVerb(sh), lsVerb(sh), verifyVerb(sh), doctorVerb(sh), proxyVerb(sh), execVerb(sh),
		},
	}
	for _, c := range app.Commands {
		c.HideHelpCommand = true
		quietDefaults(c.Flags)
		c.OnUsageError = usageProblem
		c.Description = strings.TrimSpace(c.Description) + "\n\n" + exitText
		if c.Name != "exec" { // whose arguments are another program's
			c.Action = checkArgs(c, c.Action)
		}
	}
	return app
}

// quietDefaults leaves out of --help what says nothing: that a switch is off,
// that a number which means "none" is 0.
func quietDefaults(flags []cli.Flag) {
	for _, f := range flags {
		switch f := f.(type) {
		case *cli.BoolFlag:
			f.DisableDefaultText = true
		case *cli.IntFlag:
			if f.Value == 0 && f.DefaultText == "" {
				f.DefaultText = "none"
			}
		case *cli.Int64Flag:
			f.DefaultText = "none"
		case *cli.Float64Flag:
			f.DefaultText = "none"
		case *cli.DurationFlag:
			if f.Value == 0 && f.DefaultText == "" {
				f.DefaultText = "none"
			}
		}
	}
}

func noVerb(c *cli.Context) error {
	if !c.Args().Present() {
		return cli.ShowAppHelp(c)
	}
	name := c.Args().First()
	if name == "help" { // which every other program has
		return help(c, c.Args().Get(1))
	}
	hint := "investigator --help lists the verbs"
	if s := cli.SuggestCommand(c.App.Commands, name); s != "" && !strings.Contains(s, `""`) {
		hint = s
	}
	return usagef(hint, "unknown verb %q", name)
}

// help shows a verb's --help, or that of all.
func help(c *cli.Context, verb string) error {
	if verb == "" {
		return cli.ShowAppHelp(c)
	}
	if c.App.Command(verb) == nil {
		return usagef("investigator --help lists the verbs", "unknown verb %q", verb)
	}
	return cli.ShowCommandHelp(c, verb)
}

func usageProblem(c *cli.Context, err error, _ bool) error {
	hint := "investigator --help"
	if c.Command != nil && c.Command.Name != "" && c.Command.Name != "investigator" {
		hint = fmt.Sprintf("investigator %s --help shows its flags", c.Command.Name)
	}
	text := err.Error()
	if name, value, found := unreadable(text); found {
		return usagef(hint, "--%s: expected %s, found %s", name, wanted(c, name), value)
	}
	if name, unknown := strings.CutPrefix(text, "flag provided but not defined: -"); unknown {
		if s := nearestFlag(c, name); s != "" {
			hint = "did you mean " + s + "? " + hint
		}
		return usagef(hint, "unknown flag --%s", strings.TrimLeft(name, "-"))
	}
	// The library names flags with one dash.
	return usagef(hint, "%s", strings.Replace(text, " for flag -", " for flag --", 1))
}

// unreadable takes the library's words for a value apart that is not of its
// flag's kind: invalid value "5" for flag -timeout: parse error.
func unreadable(text string) (name, value string, found bool) {
	value, is := strings.CutPrefix(text, "invalid value ")
	value, rest, found := strings.Cut(value, " for flag -")
	name, _, _ = strings.Cut(rest, ":")
	return name, value, is && found
}

// wanted is the kind of value that a flag takes.
func wanted(c *cli.Context, name string) string {
	for _, f := range c.Command.Flags {
		if !slices.Contains(f.Names(), name) {
			continue
		}
		switch f.(type) {
		case *cli.IntFlag, *cli.Int64Flag:
			return "a whole number"
		case *cli.DurationFlag:
			return "a time with its unit, such as 90s or 15m"
		case *cli.Float64Flag:
			return "a number"
		}
	}
	return "another value"
}

// nearestFlag is a flag of the verb that name may be a misspelling of, which
// begins alike. The library finds something near to any word.
func nearestFlag(c *cli.Context, name string) string {
	if c.Command == nil || len(c.Command.Flags) == 0 {
		return ""
	}
	name = strings.TrimLeft(name, "-")
	near := cli.SuggestFlag(c.Command.Flags, name, true)
	if len(name) < 2 || !strings.HasPrefix(strings.TrimLeft(near, "-"), name[:2]) {
		return ""
	}
	return near
}

// status ends a verb whose result is already written.
func status(code int) error {
	if code == exitDone {
		return nil
	}
	return &silent{code}
}
