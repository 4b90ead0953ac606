package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"investigator/internal/bedrock"
	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/engine"
	"investigator/internal/loop"
	"investigator/internal/price"
	"investigator/internal/prompt"
	"investigator/internal/report"
)

// defaultModel is a current model with a cross-region profile that every
// commercial region can call. INVESTIGATOR_MODEL overrides it.
const defaultModel = "global.anthropic.claude-sonnet-4-6"

func modelFlags() []cli.Flag {
	own := []cli.Flag{
		&cli.StringFlag{Name: "model", EnvVars: []string{"INVESTIGATOR_MODEL"}, Usage: "model id, inference profile or ARN on Bedrock (default: " + defaultModel + "); rule for the offline rule model"},
		&cli.StringFlag{Name: "fallback", Usage: "rule: go on with the rule model if the first call cannot reach Bedrock"},
		&cli.StringFlag{Name: "temperature", Usage: "0 to 1, where the model accepts it"},
		&cli.IntFlag{Name: "max-output", DefaultText: "4096", Usage: "tokens one answer may have"},
		&cli.StringFlag{Name: "cache", Usage: "prompt caching: 5m where supported by default, 1h, or off"},
	}
	return append(append(own, callFlags()...), endpointFlags()...)
}

// callFlags say how long one call may take, and what it costs.
func callFlags() []cli.Flag {
	return []cli.Flag{
		&cli.DurationFlag{Name: "call-timeout", Usage: "end the run if one model call, with all its attempts, takes longer than `DURATION`", DefaultText: "15m"},
		&cli.StringFlag{Name: "prices", Usage: "price table `FILE` to use instead of the built-in one"},
	}
}

// endpointFlags say where Bedrock is and how it is asked.
func endpointFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "region", Usage: "AWS region (default: the AWS configuration)"},
		&cli.StringFlag{Name: "profile", Usage: "AWS profile"},
		&cli.StringFlag{Name: "endpoint-url", Usage: "another endpoint for bedrock-runtime"},
		&cli.BoolFlag{Name: "no-stream", Usage: "ask for whole answers (Converse) instead of streams"},
	}
}

// orDefault names the default model where none is named. An environment variable
// that is set to nothing names none.
func (o modelOptions) orDefault() modelOptions {
	o.id = cmp.Or(o.id, defaultModel)
	return o
}

// checkRule refuses settings that the rule model would ignore.
func (o modelOptions) checkRule() error {
	if o.id != prompt.RuleModel {
		return nil
	}
	for _, f := range []struct {
		name  string
		given bool
	}{{"temperature", o.temperature != ""}, {"cache", o.cache != ""}, {"max-output", o.maxTokens != 0}, {"prices", o.prices != ""}} {
		if f.given {
			return usagef("leave it out, or name a model on Bedrock with --model", "--%s: the rule model has no such setting", f.name)
		}
	}
	return nil
}

type modelOptions struct {
	id, fallback, region, profile, endpoint string
	noStream                                bool
	temperature, prices, cache              string
	maxTokens                               int
	callTimeout                             time.Duration
}

func modelOptionsOf(c *cli.Context) modelOptions {
	return modelOptions{
		id: c.String("model"), fallback: c.String("fallback"), region: c.String("region"), profile: c.String("profile"),
		endpoint: c.String("endpoint-url"), noStream: c.Bool("no-stream"), temperature: c.String("temperature"),
		prices: c.String("prices"), cache: c.String("cache"), maxTokens: c.Int("max-output"),
		callTimeout: c.Duration("call-timeout"),
	}
}

// chair is the model that sits in a run's chair, and how it is asked.
type chair struct {
	id, name    string
	edge        edge.Edge
	temperature string
	maxTokens   int
	cache       prompt.Cache
	prices      *price.Table
	fallback    string // why another model than the one asked for is in the chair
	close       func()
}

func (c chair) priceFor(rule converse.CacheRule) *loop.Price {
	if c.prices == nil {
		return nil
	}
	if p, found := c.prices.Lookup(c.id, rule); found {
		return &p
	}
	return nil
}

// takeChair makes the model edge. A Bedrock model is never replaced silently:
// with --fallback rule the rule model takes its place, and the run says so.
func takeChair(ctx context.Context, sh *shell, o modelOptions) (chair, error) {
	if o.fallback != "" && o.fallback != prompt.RuleModel {
		return chair{}, usagef("--fallback rule", "--fallback: expected rule, found %q", o.fallback)
	}
	if o.id == prompt.RuleModel {
		return ruleChair(""), nil
	}
	ch, err := bedrockChair(ctx, sh, o)
	if err == nil {
		return ch, nil
	}
	var setup *bedrock.SetupError
	if !errors.As(err, &setup) {
		return chair{}, err
	}
	if o.fallback == prompt.RuleModel {
		sh.notes().Line(report.Yellow, "%s cannot be reached (%s): the rule model takes its place", o.id, err.Error())
		// Without the SDK's own words, which may name files of this machine.
		return ruleChair(fmt.Sprintf("%s could not be reached: %s", o.id, setup.Failure.Message)), nil
	}
	return chair{}, err
}

func ruleChair(fallback string) chair {
	return chair{id: prompt.RuleModel, name: "rule", edge: engine.RuleModel{}, fallback: fallback, close: func() {}}
}

func bedrockChair(ctx context.Context, sh *shell, o modelOptions) (chair, error) {
	prices, err := openPrices(o.prices)
	if err != nil {
		return chair{}, err
	}
	e, err := bedrock.New(ctx, bedrock.Options{
		Model: o.id, Region: o.region, Profile: o.profile, EndpointURL: o.endpoint, Stream: !o.noStream, CallTimeout: o.callTimeout, Watch: sh.speech.watch(),
	})
	if err != nil {
		return chair{}, err
	}
	return chair{
		id: o.id, name: o.id + " in " + e.Region(), edge: e, temperature: o.temperature, maxTokens: o.maxTokens,
		cache: prompt.Cache(o.cache), prices: &prices, close: e.Close,
	}, nil
}

func openPrices(file string) (price.Table, error) {
	if file == "" {
		return price.Builtin()
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return price.Table{}, fmt.Errorf("read prices: %w", err)
	}
	t, err := price.Parse(b)
	if err != nil {
		return t, fmt.Errorf("read prices %s: %w", file, err)
	}
	return t, nil
}
