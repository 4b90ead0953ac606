package main

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/document"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"
)

// tools are the two every client offers the model.
type tools struct {
	// osloTemp, when set, replaces Oslo's temperature: how a test changes one
	// tool result and nothing else.
	osloTemp string
}

func (tools) config() *types.ToolConfiguration {
	city := map[string]any{"type": "string", "description": "Name of the city."}
	id := map[string]any{"type": "integer", "description": "Station, if known."}
	return &types.ToolConfiguration{Tools: []types.Tool{
		spec("get_weather", "Current temperature in a city, in degrees Celsius.", map[string]any{"city": city, "id": id}),
		spec("get_time", "Local time in a city.", map[string]any{"city": city}),
	}}
}

func spec(name, description string, properties map[string]any) types.Tool {
	return &types.ToolMemberToolSpec{Value: types.ToolSpecification{
		Name:        aws.String(name),
		Description: aws.String(description),
		InputSchema: &types.ToolInputSchemaMemberJson{Value: document.NewLazyDocument(map[string]any{
			"type": "object", "properties": properties, "required": []string{"city"},
		})},
	}}
}

// results answers every tool call of a turn, in its order.
func (t tools) results(answer types.Message) (types.Message, error) {
	m := types.Message{Role: types.ConversationRoleUser}
	for _, block := range answer.Content {
		use, ok := block.(*types.ContentBlockMemberToolUse)
		if !ok {
			continue
		}
		result, err := t.call(use.Value)
		if err != nil {
			return m, err
		}
		m.Content = append(m.Content, &types.ContentBlockMemberToolResult{Value: types.ToolResultBlock{
			ToolUseId: use.Value.ToolUseId,
			Content:   []types.ToolResultContentBlock{&types.ToolResultContentBlockMemberJson{Value: document.NewLazyDocument(result)}},
		}})
	}
	return m, nil
}

func (t tools) call(use types.ToolUseBlock) (map[string]any, error) {
	name := aws.ToString(use.Name)
	// By way of JSON: a document that was built here, as streamed ones are,
	// marshals but does not unmarshal.
	data, err := use.Input.MarshalSmithyDocument()
	if err != nil {
		return nil, fmt.Errorf("read input of tool %q: %w", name, err)
	}
	var input struct {
		City string `json:"city"`
	}
	if err := json.Unmarshal(data, &input); err != nil {
		return nil, fmt.Errorf("decode input %q of tool %q: %w", data, name, err)
	}
	switch name {
	case "get_weather":
		temp, err := t.temperature(input.City)
		return map[string]any{"city": input.City, "temp": temp}, err
	case "get_time":
		return map[string]any{"city": input.City, "time": "10:00"}, nil
	}
	return nil, fmt.Errorf("the model asked for %q; there is no such tool", name)
}

func (t tools) temperature(city string) (int, error) {
	switch {
	case city != "Oslo":
		return 7, nil
	case t.osloTemp == "":
		return 3, nil
	}
	temp, err := strconv.Atoi(t.osloTemp)
	if err != nil {
		return 0, fmt.Errorf("read TOOL_OSLO_TEMP %q: expected a whole number", t.osloTemp)
	}
	return temp, nil
}
