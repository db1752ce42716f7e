package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/windowsmachine/operator/pkg/agent/disk"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

const secretsPrefix, secretsSuffix = "secrets-", ".json"

// pending is a secrets file: content by secret name. It has no String of its own because nothing ever prints it.
type pending map[string][]byte

func secretsFile(accept int64) string {
	return secretsPrefix + strconv.FormatInt(accept, 10) + secretsSuffix
}

// secretsOf returns the acceptance that a file name stands for.
func secretsOf(name string) (int64, bool) {
	mid, ok := strings.CutPrefix(name, secretsPrefix)
	mid, end := strings.CutSuffix(mid, secretsSuffix)
	n, err := strconv.ParseInt(mid, 10, 64)
	return n, ok && end && err == nil
}

// pendingAccepts lists the acceptances up to last whose secrets are not in place yet, the oldest first.
func (a *Agent) pendingAccepts(last int64) ([]int64, error) {
	list, err := a.sys.Files.ReadDir(plan.AgentRoot)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", plan.AgentRoot, err)
	}
	var out []int64
	for _, e := range list {
		if n, ok := secretsOf(e.Path[strings.LastIndexByte(e.Path, '\\')+1:]); ok && n <= last {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out, nil
}

// loadPending returns the secrets up to an acceptance, newer ones winning.
func (a *Agent) loadPending(last int64) (pending, error) {
	accepts, err := a.pendingAccepts(last)
	if err != nil {
		return nil, err
	}
	all := pending{}
	for _, n := range accepts {
		b, err := disk.Read(a.sys.Files, rooted(secretsFile(n)), maxOwnFile)
		if errors.Is(err, system.ErrNotExist) {
			// The engine has put them in place meanwhile.
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrStateInvalid, err)
		}
		var one pending
		if err := json.Unmarshal(b, &one); err != nil {
			// The cause is left out: it may quote a secret.
			return nil, fmt.Errorf("%w: %s is not JSON", ErrStateInvalid, rooted(secretsFile(n)))
		}
		maps.Copy(all, one)
	}
	return all, nil
}

// storePending writes the secrets that come with an acceptance, together with older ones that still wait and that p still wants.
func (a *Agent) storePending(ctx context.Context, accept int64, p plan.Plan, fresh map[string][]byte) error {
	all, err := a.loadPending(accept)
	if err != nil {
		return err
	}
	maps.Copy(all, fresh)
	maps.DeleteFunc(all, func(name string, _ []byte) bool {
		return !slices.ContainsFunc(p.Secrets, func(s plan.Secret) bool { return s.Name == name })
	})
	if len(all) == 0 {
		return nil
	}
	return a.saveJSON(ctx, secretsFile(accept), all)
}

// dropPending deletes the secrets files up to an acceptance.
func (a *Agent) dropPending(last int64) error {
	accepts, err := a.pendingAccepts(last)
	if err != nil {
		return err
	}
	for _, n := range accepts {
		if err := a.sys.Files.Remove(rooted(secretsFile(n))); err != nil && !errors.Is(err, system.ErrNotExist) {
			return fmt.Errorf("deleting secrets that are in place: %w", err)
		}
	}
	return nil
}
