package bedrocktest

import (
	"fmt"
	"net/http"
	"strings"
)

// APIError is a refusal in Bedrock's terms: HTTP status, exception name without
// namespace, and the message a client shows.
type APIError struct {
	Status  int
	Type    string
	Message string
}

func (e *APIError) Error() string { return e.Type + ": " + e.Message }

func invalid(format string, args ...any) *APIError {
	return &APIError{Status: http.StatusBadRequest, Type: "ValidationException", Message: fmt.Sprintf(format, args...)}
}

// modelPrefix marks what the model's own API refused rather than Bedrock's.
const modelPrefix = "The model returned the following errors: "

// errorReply renders e in the shape of the API that was called.
func errorReply(op Op, e *APIError) reply {
	r := reply{status: e.Status, header: http.Header{"Content-Type": {"application/json"}}}
	switch op {
	case OpChatCompletions:
		r.chunks = [][]byte{encode(openAIError(e))}
	case OpMessages:
		r.chunks = [][]byte{encode(anthropicError(e))}
	default:
		r.header.Set("x-amzn-ErrorType", e.Type+":http://internal.amazon.com/coral/com.amazon.bedrock/")
		r.chunks = [][]byte{encode(object{{"message", e.Message}})}
	}
	return r
}

func openAIError(e *APIError) object {
	kind := "invalid_request_error"
	switch {
	case e.Status == http.StatusTooManyRequests:
		kind = "rate_limit_error"
	case e.Status >= http.StatusInternalServerError:
		kind = "server_error"
	}
	return object{{"error", object{{"message", e.Message}, {"type", kind}, {"param", nil}, {"code", snake(e.Type)}}}}
}

func anthropicError(e *APIError) object {
	kinds := map[int]string{
		400: "invalid_request_error", 403: "permission_error", 404: "not_found_error",
		408: "timeout_error", 429: "rate_limit_error", 503: "overloaded_error",
	}
	kind, ok := kinds[e.Status]
	if !ok {
		kind = "api_error"
	}
	return object{{"type", "error"}, {"error", object{{"type", kind}, {"message", e.Message}}}}
}

// snake turns ThrottlingException into throttling_exception.
func snake(s string) string {
	var b strings.Builder
	for i, c := range s {
		if c >= 'A' && c <= 'Z' && i > 0 {
			b.WriteByte('_')
		}
		b.WriteString(strings.ToLower(string(c)))
	}
	return b.String()
}
