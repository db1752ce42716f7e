package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// The instance metadata service of EC2, version 2: a token first, then what is asked for.
const (
	metadata        = "http://169.254.169.254/latest/"
	metadataTimeout = 10 * time.Second
	maxMetadata     = 4 << 10
)

// errMetadata: the service answered something else than 200.
var errMetadata = errors.New("metadata service refused")

// awsHostname is the instance's private DNS name, which the node must have: the cloud's controller finds the instance by it.
func (p *program) awsHostname(ctx context.Context) (string, error) {
	ctx, cancel := p.timeout(ctx, metadataTimeout)
	defer cancel()
	transport := &http.Transport{DialContext: p.env.System.Machine.Dial, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	// No redirect leads anywhere that was asked for.
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	token, err := fetch(ctx, client, http.MethodPut, "api/token", "X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "60")
	if err != nil {
		return "", err
	}
	name, err := fetch(ctx, client, http.MethodGet, "meta-data/local-hostname", "X-Aws-Ec2-Metadata-Token", token)
	// An instance may have several names in a row.
	name, _, _ = strings.Cut(strings.TrimSpace(name), " ")
	return strings.ToLower(name), err
}

func fetch(ctx context.Context, client *http.Client, method, what, header, value string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, metadata+what, http.NoBody)
	if err != nil {
		return "", fmt.Errorf("asking for %s: %w", what, err)
	}
	req.Header.Set(header, value)
	res, err := client.Do(req)
	if err != nil {
		return "", fmt.Errorf("asking for %s: %w", what, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxMetadata))
	if err != nil {
		return "", fmt.Errorf("asking for %s: %w", what, err)
	}
	if res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("asking for %s: %w: %d", what, errMetadata, res.StatusCode)
	}
	return string(b), nil
}
