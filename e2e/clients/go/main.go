// Command go is the AWS SDK for Go in the part of a foreign agent: the tool
// loop that every client under e2e/clients runs, written the way a user of the
// SDK would write it, and with none of this project's code.
//
// It asks about the weather and the time in Oslo, answers tool calls until the
// model has had enough, and prints the final text. An error is one line on
// stderr, "ERROR <status> <name>: <message>", and exit status 1.
//
// It deliberately keeps the SDK's habits that a proxy has to live with: a
// streamed tool input is decoded into plain Go values, so a large integer comes
// back rounded, and the request body is the SDK's own, which a server that
// answers very early can lose.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

const (
	question = "What is the weather and time in Oslo?"
	system   = "Answer with the tools. Be brief."
	// maxTurns is more than the script has: a model that never stops must not
	// hang a test.
	maxTurns = 6
)

func main() {
	os.Exit(run(context.Background(), os.Getenv, os.Stdout, os.Stderr))
}

func run(ctx context.Context, getenv func(string) string, stdout, stderr io.Writer) int {
	text, err := converse(ctx, getenv)
	if err != nil {
		fmt.Fprintln(stderr, errorLine(err))
		return 1
	}
	fmt.Fprintln(stdout, strings.TrimSpace(text))
	return 0
}

func converse(ctx context.Context, getenv func(string) string) (string, error) {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return "", fmt.Errorf("load AWS configuration: %w", err)
	}
	model := getenv("MODEL")
	if model == "" {
		model = "anthropic.claude-sonnet-4-5-20250929-v1:0"
	}
	a := agent{
		client: bedrockruntime.NewFromConfig(cfg),
		model:  model,
		stream: getenv("STREAM") == "1",
		tools:  tools{osloTemp: getenv("TOOL_OSLO_TEMP")},
	}
	return a.loop(ctx)
}

type agent struct {
	client *bedrockruntime.Client
	model  string
	stream bool
	tools  tools
}

func (a agent) loop(ctx context.Context) (string, error) {
	messages := []types.Message{{
		Role:    types.ConversationRoleUser,
		Content: []types.ContentBlock{&types.ContentBlockMemberText{Value: question}},
	}}
	for range maxTurns {
		answer, stop, err := a.ask(ctx, messages)
		if err != nil {
			return "", err
		}
		if stop != types.StopReasonToolUse {
			return text(answer), nil
		}
		results, err := a.tools.results(answer)
		if err != nil {
			return "", err
		}
		messages = append(messages, answer, results)
	}
	return "", fmt.Errorf("no final answer after %d turns", maxTurns)
}

func (a agent) ask(ctx context.Context, messages []types.Message) (types.Message, types.StopReason, error) {
	prompt := []types.SystemContentBlock{&types.SystemContentBlockMemberText{Value: system}}
	if a.stream {
		return a.streamed(ctx, &bedrockruntime.ConverseStreamInput{
			ModelId: aws.String(a.model), System: prompt, Messages: messages, ToolConfig: a.tools.config(),
		})
	}
	out, err := a.client.Converse(ctx, &bedrockruntime.ConverseInput{
		ModelId: aws.String(a.model), System: prompt, Messages: messages, ToolConfig: a.tools.config(),
	})
	if err != nil {
		return types.Message{}, "", err
	}
	answer, ok := out.Output.(*types.ConverseOutputMemberMessage)
	if !ok {
		return types.Message{}, "", fmt.Errorf("read answer: expected a message, found %T", out.Output)
	}
	return answer.Value, out.StopReason, nil
}

func text(m types.Message) string {
	var b strings.Builder
	for _, block := range m.Content {
		if t, ok := block.(*types.ContentBlockMemberText); ok {
			b.WriteString(t.Value)
		}
	}
	return b.String()
}

func errorLine(err error) string {
	status, name, message := 0, "Error", err.Error()
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) {
		status = response.HTTPStatusCode()
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		name, message = api.ErrorCode(), api.ErrorMessage()
	}
	return fmt.Sprintf("ERROR %d %s: %s", status, name, strings.Join(strings.Fields(message), " "))
}
