package bedrock

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/loop"
)

// Names of failures that are not exceptions of the service.
const (
	incompleteAnswer   = "IncompleteResponse" // an answer that ended before it was whole
	damagedAnswer      = "DamagedResponse"    // bytes that are not what the protocol says
	unexpectedAnswer   = "UnexpectedResponse" // something else than Bedrock answered
	tooLarge           = "OversizedResponse"
	connectionFailed   = "ConnectionError"
	idleTimeout        = "IdleTimeout"
	callTimeout        = loop.CallTimeout
	credentialsFailed  = "CredentialsError"
	requestNotPossible = "RequestError" // the SDK would not send the request
)

// attemptError is a failed attempt that the SDK does not see as one, or words
// with facts of this machine.
type attemptError struct {
	name, message string
	status        int
	retry         bool
}

func (e *attemptError) Error() string { return e.name + ": " + e.message }

// RetryableError and ErrorCode tell the SDK's retryer what this is.
func (e *attemptError) RetryableError() bool { return e.retry }
func (e *attemptError) ErrorCode() string    { return e.name }

func incomplete(message string) error {
	return &attemptError{name: incompleteAnswer, message: message, retry: true}
}

func damaged(err error) error {
	return &attemptError{name: damagedAnswer, message: err.Error(), retry: true}
}

// exception is one that came inside a stream. It is tried again where the same
// exception before the stream is, and where its text asks for it.
func exception(e *converse.StreamError) error {
	a := &attemptError{name: e.Name, message: e.Message, status: e.Status}
	switch e.Name {
	case "ThrottlingException", "InternalServerException", "ServiceUnavailableException",
		"ModelStreamErrorException", "ModelTimeoutException", "ModelNotReadyException":
		a.retry = true
	}
	return a
}

// unexpected is an answer of something that is not Bedrock. What a proxy says
// with 5xx may pass; a page with any other status is there to stay.
func unexpected(code int, body []byte) error {
	message := fmt.Sprintf("HTTP %d with a web page instead of Bedrock's answer", code)
	if title := pageTitle(body); title != "" {
		message = fmt.Sprintf("HTTP %d with a web page (%q) instead of Bedrock's answer", code, title)
	}
	if code >= 300 && code < 400 {
		message = fmt.Sprintf("HTTP %d, a redirect, which is not followed: it would carry credentials elsewhere", code)
	}
	return &attemptError{name: unexpectedAnswer, message: message, status: code, retry: code >= 502 && code <= 504}
}

func pageTitle(body []byte) string {
	_, after, found := bytes.Cut(body, []byte("<title>"))
	title, _, closed := bytes.Cut(after, []byte("</title>"))
	if !found || !closed {
		return ""
	}
	text := strings.ToValidUTF8(string(title[:min(len(title), 100)]), "")
	return strings.Join(strings.Fields(text), " ")
}

// interrupted words an error by which reading ended early.
func (x *exchange) interrupted(err error) error {
	switch cause := context.Cause(x.ctx); {
	case errors.Is(cause, errIdle):
		return &attemptError{name: idleTimeout, message: fmt.Sprintf("no byte of the answer came for %s", x.idle), retry: true}
	case errors.Is(cause, errCallTimeout):
		return &attemptError{name: callTimeout, message: fmt.Sprintf("no whole answer within %s", x.call)}
	case cause != nil:
		return &attemptError{name: "Cancelled", message: "the call was cancelled"} // the caller gets ctx's error
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return incomplete("the connection closed before the answer was complete")
	}
	return &attemptError{name: connectionFailed, message: networkProblem(err), retry: true}
}

// refused finds out what an attempt without a good answer failed of.
func (x *exchange) refused(err error) error {
	var own *attemptError
	switch {
	case x.ctx.Err() != nil:
		return x.interrupted(err)
	case errors.As(err, &own):
		return own
	case !x.sent:
		return notSent(err)
	case x.code == 0:
		retry := x.retryer.IsErrorRetryable(err) && !untrusted(err) && !unknownHost(err)
		return &attemptError{name: connectionFailed, message: networkProblem(err), retry: retry}
	case x.code < 400 || x.isPage():
		return unexpected(x.code, x.body)
	}
	return err
}

// notSent words why the SDK did not send a request. Its own words name files
// and addresses.
func notSent(err error) error {
	text := fmt.Sprint(err)
	switch {
	case strings.Contains(text, "requires HTTPS"):
		return &attemptError{name: credentialsFailed, message: bearerOverHTTP}
	case strings.Contains(text, "get identity"), strings.Contains(text, "credentials"), strings.Contains(text, "sign request"):
		return &attemptError{name: credentialsFailed, message: "the AWS credentials could not be renewed"}
	}
	return &attemptError{name: requestNotPossible, message: "the request could not be built: check the region, the endpoint and the model id"}
}

// untrusted reports whether the peer's certificate was refused.
func untrusted(err error) bool {
	var verify *tls.CertificateVerificationError
	return errors.As(err, &verify)
}

// unknownHost reports whether a name server said that there is no such host:
// a region that does not exist stays so. One that cannot be asked may come back.
func unknownHost(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns) && dns.IsNotFound
}

// networkProblem words a connection's failure without addresses.
func networkProblem(err error) string {
	var dns *net.DNSError
	var timeout net.Error
	var record tls.RecordHeaderError
	var unknown x509.UnknownAuthorityError
	var op *net.OpError
	switch {
	case errors.As(err, &unknown):
		return "the endpoint's certificate is signed by an authority that is not trusted"
	case untrusted(err):
		return "the endpoint's certificate is not valid for it"
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return "the endpoint does not speak TLS"
	case errors.As(err, &op) && op.Op == "proxyconnect":
		return "the HTTP proxy could not be reached"
	case errors.As(err, &dns):
		return "the endpoint's host name could not be resolved"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection was refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "the connection was reset"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "the connection timed out"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed without an answer"
	}
	return "the connection failed"
}

// failure says in the service's terms what an attempt failed of.
func (c *ongoing) failure(err error) edge.Failure {
	f := edge.Failure{Name: unexpectedAnswer, Message: "an error that Bedrock does not name"}
	var own *attemptError
	var api smithy.APIError
	var resp *awshttp.ResponseError
	if errors.As(err, &resp) {
		f.Status = resp.HTTPStatusCode()
		f.Message = fmt.Sprintf("HTTP %d with an error that Bedrock does not name", f.Status)
	}
	if errors.As(err, &own) {
		f = edge.Failure{Name: own.name, Message: own.message, Status: own.status}
	} else if errors.As(err, &api) {
		f.Name, f.Message = api.ErrorCode(), api.ErrorMessage()
	}
	if f.Name != callTimeout && errors.Is(context.Cause(c.ctx), errCallTimeout) {
		f.Message = fmt.Sprintf("no whole answer within %s; the last attempt failed with %s: %s", c.call, f.Name, f.Message)
		f.Name = callTimeout
	}
	return f
}

// cutShort is what the record of an attempt says ended it, "" where the response
// says so itself.
func (x *exchange) cutShort(err error) string {
	var api smithy.APIError
	var own *attemptError
	if errors.As(err, &api) && !errors.As(err, &own) {
		return ""
	}
	f := x.failure(err)
	return f.Name + ": " + f.Message
}

// newRetryer is the SDK's standard policy without its quota, which is shared by
// all calls of a client and would end a run for the trouble of another.
func newRetryer(attempts int) *retry.Standard {
	late := map[string]struct{}{"ModelTimeoutException": {}, "ModelNotReadyException": {}}
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = attempts
		o.RateLimiter = ratelimit.None
		o.Retryables = append(o.Retryables, retry.RetryableErrorCode{Codes: late})
		o.Throttles = append(o.Throttles, retry.ThrottleErrorCode{Codes: late})
	})
}

// maxRetryAfter bounds how long a server may ask us to wait.
const maxRetryAfter = time.Minute

// pause is how long to wait after the n-th attempt failed with err: what the
// retryer says, or longer if the server asks for it.
func (c *ongoing) pause(n int, err error) time.Duration {
	pause, delayErr := c.retryer.RetryDelay(n, err)
	if delayErr != nil {
		pause = retry.DefaultMaxBackoff
	}
	var resp *awshttp.ResponseError
	if errors.As(err, &resp) && resp.Response != nil {
		pause = max(pause, min(retryAfter(resp.Response.Header), maxRetryAfter))
	}
	return pause
}

// retryAfter reads how long a response asks to wait, 0 if it does not.
func retryAfter(h http.Header) time.Duration {
	if ms, err := strconv.Atoi(h.Get("X-Amz-Retry-After")); err == nil && ms > 0 {
		return time.Duration(min(ms, 1e9)) * time.Millisecond
	}
	if s, err := strconv.Atoi(h.Get("Retry-After")); err == nil && s > 0 {
		return time.Duration(min(s, 1e6)) * time.Second
	}
	return 0
}

// sleep waits until d is over or ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
