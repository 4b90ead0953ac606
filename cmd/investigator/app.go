package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// version is set by the linker in releases.
var version = "dev"

// run executes one command line and returns its exit status.
func run(ctx context.Context, args []string, sh *shell) int {
	err := newApp(sh).RunContext(ctx, args)
	if err == nil {
		err = ctx.Err()
	}
	complain(sh.notes(), err)
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
		c.OnUsageError = usageProblem
		c.Description = strings.TrimSpace(c.Description) + "\n\n" + exitText
		if c.Name != "exec" { // whose arguments are another program's
			c.Action = checkArgs(c, c.Action)
		}
	}
	return app
}

func noVerb(c *cli.Context) error {
	if !c.Args().Present() {
		return cli.ShowAppHelp(c)
	}
	name := c.Args().First()
	hint := "investigator --help lists the verbs"
	if s := cli.SuggestCommand(c.App.Commands, name); s != "" {
		hint = s
	}
	return usagef(hint, "unknown verb %q", name)
}

func usageProblem(c *cli.Context, err error, _ bool) error {
	hint := "investigator --help"
	if c.Command != nil && c.Command.Name != "" && c.Command.Name != "investigator" {
		hint = fmt.Sprintf("investigator %s --help shows its flags", c.Command.Name)
	}
	return usagef(hint, "%s", strings.TrimPrefix(err.Error(), "flag provided but "))
}

// checkArgs refuses flags that stand after the argument: the library would
// take them for arguments and run without them.
func checkArgs(cmd *cli.Command, action cli.ActionFunc) cli.ActionFunc {
	return func(c *cli.Context) error {
		args := c.Args().Slice()
		i := slices.IndexFunc(args, func(a string) bool { return len(a) > 1 && a[0] == '-' })
		if i < 0 {
			return action(c)
		}
		fixed := append([]string{"investigator", cmd.Name}, append(slices.Clone(args[i:]), args[:i]...)...)
		return usagef("put flags before the file: "+strings.Join(fixed, " "), "the flag %s stands after an argument", args[i])
	}
}

// oneArg returns the verb's single argument.
func oneArg(c *cli.Context, what string) (string, error) {
	switch c.Args().Len() {
	case 1:
		return c.Args().First(), nil
	case 0:
		return "", usagef(c.Command.UsageText, "expected %s, found none", what)
	}
	return "", usagef(c.Command.UsageText, "expected one %s, found %d arguments", what, c.Args().Len())
}

// status ends a verb whose result is already written.
func status(code int) error {
	if code == exitDone {
		return nil
	}
	return &silent{code}
}

// wrote turns a failed write of a result into an error, but for a reader that
// has gone away, which is how head ends a pipe.
func wrote(err error) error {
	if errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return err
}
