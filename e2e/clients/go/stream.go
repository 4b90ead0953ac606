package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/document"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"
)

// streamed asks for an event stream and puts the answer together from it.
func (a agent) streamed(ctx context.Context, in *bedrockruntime.ConverseStreamInput) (types.Message, types.StopReason, error) {
	out, err := a.client.ConverseStream(ctx, in)
	if err != nil {
		return types.Message{}, "", err
	}
	stream := out.GetStream()
	defer stream.Close()
	var answer assembly
	for event := range stream.Events() {
		answer.add(event)
	}
	if err := stream.Err(); err != nil {
		return types.Message{}, "", err
	}
	return answer.message()
}

// assembly collects the blocks of one streamed answer, by their index.
type assembly struct {
	blocks []block
	stop   types.StopReason
}

type block struct {
	text  string
	tool  *types.ToolUseBlockStart
	input string
}

func (a *assembly) add(event types.ConverseStreamOutput) {
	switch e := event.(type) {
	case *types.ConverseStreamOutputMemberContentBlockStart:
		if start, ok := e.Value.Start.(*types.ContentBlockStartMemberToolUse); ok {
			a.at(e.Value.ContentBlockIndex).tool = &start.Value
		}
	case *types.ConverseStreamOutputMemberContentBlockDelta:
		b := a.at(e.Value.ContentBlockIndex)
		switch d := e.Value.Delta.(type) {
		case *types.ContentBlockDeltaMemberText:
			b.text += d.Value
		case *types.ContentBlockDeltaMemberToolUse:
			b.input += aws.ToString(d.Value.Input)
		}
	case *types.ConverseStreamOutputMemberMessageStop:
		a.stop = e.Value.StopReason
	}
}

func (a *assembly) at(index *int32) *block {
	i := int(aws.ToInt32(index))
	for len(a.blocks) <= i {
		a.blocks = append(a.blocks, block{})
	}
	return &a.blocks[i]
}

// message requires the messageStop event: the SDK ends a cut stream in silence.
func (a *assembly) message() (types.Message, types.StopReason, error) {
	if a.stop == "" {
		return types.Message{}, "", errors.New("the stream ended before messageStop")
	}
	m := types.Message{Role: types.ConversationRoleAssistant}
	for _, b := range a.blocks {
		if b.tool == nil {
			m.Content = append(m.Content, &types.ContentBlockMemberText{Value: b.text})
			continue
		}
		var input any
		if err := json.Unmarshal([]byte(b.input), &input); err != nil {
			return types.Message{}, "", fmt.Errorf("decode tool input %q: %w", b.input, err)
		}
		m.Content = append(m.Content, &types.ContentBlockMemberToolUse{Value: types.ToolUseBlock{
			ToolUseId: b.tool.ToolUseId, Name: b.tool.Name, Input: document.NewLazyDocument(input),
		}})
	}
	return m, a.stop, nil
}
