package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"investigator/internal/bedrock"
	"investigator/internal/prompt"
	"investigator/internal/report"
)

func doctorVerb(sh *shell) *cli.Command {
	return &cli.Command{
		Name:      "doctor",
		Usage:     "check credentials, region, endpoint and model before a run",
		UsageText: "investigator doctor [--call]",
		Description: `Checks what a run on Amazon Bedrock needs and says what to do about what is
missing. With --call it makes one call of one output token, which costs a
fraction of a cent and proves that the model answers.`,
		Flags: append(modelFlags()[:1:1], append([]cli.Flag{
			&cli.BoolFlag{Name: "call", Usage: "make one tiny model call"},
			jsonFlag(),
		}, endpointFlags()...)...),
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			return doctor(c.Context, sh, modelOptionsOf(c).orDefault(), c.Bool("call"), c.Bool("json"))
		},
	}
}

func doctor(ctx context.Context, sh *shell, m modelOptions, call, asJSON bool) error {
	if m.id == prompt.RuleModel {
		return offline(sh, asJSON)
	}
	checks := bedrock.Doctor(ctx, bedrock.Options{Model: m.id, Region: m.region, Profile: m.profile, EndpointURL: m.endpoint, Stream: !m.noStream}, call)
	code := exitDone
	for _, c := range checks {
		if !c.OK {
			code = exitError
		}
	}
	if asJSON {
		if err := printJSON(sh.out, checks); err != nil {
			return err
		}
		return status(code)
	}
	p := sh.printer()
	for _, c := range checks {
		mark, style := "ok  ", report.Green
		if !c.OK {
			mark, style = "FAIL", report.Red
		}
		p.Line(style, "%s  %-12s %s", mark, c.Name, c.Detail)
		if c.Hint != "" {
			p.Line(report.Plain, "      hint: %s", c.Hint)
		}
	}
	if !call && code == exitDone {
		p.Line(report.Dim, "no model was called; --call makes one tiny call")
	}
	return status(code)
}

// offline is all that there is to say of the rule model.
func offline(sh *shell, asJSON bool) error {
	c := bedrock.Check{Name: "model", OK: true, Detail: "the rule model, which is offline and needs no credentials, region or endpoint"}
	if asJSON {
		return printJSON(sh.out, []bedrock.Check{c})
	}
	sh.printer().Line(report.Green, "ok    %-12s %s", c.Name, c.Detail)
	return nil
}
