package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// checkArgs refuses flags that stand after the argument: the library would
// take them for arguments and run without them.
func checkArgs(cmd *cli.Command, action cli.ActionFunc) cli.ActionFunc {
	return func(c *cli.Context) error {
		args := c.Args().Slice()
		i := slices.IndexFunc(args, func(a string) bool { return len(a) > 1 && a[0] == '-' })
		if i < 0 {
			return action(c)
		}
		return usagef("put flags before the file: "+reordered(cmd, c, args), "the flag %s stands after an argument", args[i])
	}
}

// reordered is the command line with its flags where the library finds them.
// Those that it found already stand first, with the values they were given.
func reordered(cmd *cli.Command, c *cli.Context, args []string) string {
	flags, files := []string{"investigator", cmd.Name}, []string(nil)
	for _, name := range c.LocalFlagNames() {
		if len(name) > 1 {
			flags = append(flags, given(cmd, c, name)...)
		}
	}
	for i := 0; i < len(args); i++ {
		if len(args[i]) < 2 || args[i][0] != '-' {
			files = append(files, shellQuote(args[i]))
			continue
		}
		flags = append(flags, shellQuote(args[i]))
		if takesValue(cmd, args[i]) && i+1 < len(args) {
			i++
			flags = append(flags, shellQuote(args[i]))
		}
	}
	return strings.Join(append(flags, files...), " ")
}

// given repeats a flag as it was set.
func given(cmd *cli.Command, c *cli.Context, name string) []string {
	if !takesValue(cmd, "--"+name) {
		return []string{"--" + name}
	}
	var out []string
	values := c.StringSlice(name)
	if values == nil {
		values = []string{fmt.Sprint(c.Value(name))}
	}
	for _, v := range values {
		out = append(out, "--"+name, shellQuote(v))
	}
	return out
}

// takesValue reports whether the argument after this one belongs to it.
func takesValue(cmd *cli.Command, arg string) bool {
	name := strings.TrimLeft(arg, "-")
	if strings.Contains(name, "=") {
		return false
	}
	for _, f := range cmd.Flags {
		if slices.Contains(f.Names(), name) {
			_, isBool := f.(*cli.BoolFlag)
			return !isBool
		}
	}
	return false
}

// onlyHelp leaves a verb's --help alone on the line: the library takes an argument
// beside it for a topic that it does not know. What stands behind the command of
// exec is that command's.
func onlyHelp(app *cli.App, args []string) []string {
	if len(args) < 3 {
		return args
	}
	cmd := app.Command(args[1])
	for i := 2; cmd != nil && i < len(args); i++ {
		flag := strings.HasPrefix(args[i], "-")
		switch {
		case args[i] == "--help" || args[i] == "-h":
			return []string{args[0], args[1], "--help"}
		case args[i] == "--" || cmd.Name == "exec" && !flag:
			return args
		case flag && takesValue(cmd, args[i]):
			i++
		}
	}
	return args
}

// noArgs refuses arguments of a verb that takes none.
func noArgs(c *cli.Context) error {
	if c.Args().Present() {
		return usagef(c.Command.UsageText, "expected no argument, found %q", c.Args().First())
	}
	return nil
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
