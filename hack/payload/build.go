package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/windowsmachine/operator/hack/payload/programs"
	"github.com/windowsmachine/operator/pkg/payload"
)

func buildCommand() *cobra.Command {
	var out, list string
	c := &cobra.Command{
		Use:   "build",
		Short: "Build the real programs from source and pack them",
		Long: `Build kubelet, kube-proxy, kube-log-runner, containerd, containerd-shim-runhcs-v1, win-bridge, win-overlay, host-local and
windows_exporter for windows/amd64 from the Go module proxy, and pack them into a store. What was built is kept in
${XDG_CACHE_HOME:-~/.cache}/windowsmachine; a second run does nothing.

Programs that cannot be built from modules (hybrid-overlay-node, azure-cloud-node-manager, csi-proxy) are declared in a YAML or JSON file
by whoever packs, and vouches for them:

    - url: https://example.com/csi-proxy.exe   # or file: csi-proxy.exe, relative to the list
      name: csi-proxy.exe                      # default: the last part of the address
      version: v1.3.0
      licence: Apache-2.0                      # SPDX
      source: github.com/kubernetes-csi/csi-proxy
      sha256: 0123…                            # the file must have it, or nothing is packed`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			extra, err := declared(cmd.Context(), list, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			s, err := programs.Cached(cmd.Context(), cmd.ErrOrStderr(), extra...)
			if err != nil {
				return err
			}
			return deliver(cmd, s, out)
		},
	}
	c.Flags().StringVar(&out, "out", "", "folder of the store")
	c.Flags().StringVar(&list, "declare", "", "YAML or JSON file that names more files, with their SHA-256")
	required(c, "out")
	return c
}

// deliver copies a packed payload to out, unless it is there.
func deliver(cmd *cobra.Command, s *payload.Store, out string) error {
	if current(s, out) {
		fmt.Fprintf(cmd.ErrOrStderr(), "payload: %s is current\n", out)
		return show(cmd.OutOrStdout(), s)
	}
	copied, err := s.CopyTo(out)
	if err != nil {
		return err
	}
	return show(cmd.OutOrStdout(), copied)
}

// current reports whether out holds the payload, by its manifest and the sizes of its blobs.
func current(s *payload.Store, out string) bool {
	if _, err := payload.OpenStore(out); err != nil {
		return false
	}
	want, errWant := os.ReadFile(filepath.Join(s.Dir(), payload.ManifestFile))
	got, errGot := os.ReadFile(filepath.Join(out, payload.ManifestFile))
	return errWant == nil && errGot == nil && bytes.Equal(want, got)
}

var (
	errUnknownProgram = errors.New("there is no such program")
	errNotTheSame     = errors.New("two builds of the same source differ")
)

func reproCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "repro [NAME...]",
		Short: "Build programs twice, in two folders, once with an empty build cache, and compare their SHA-256",
		Long: `Build programs twice and compare their SHA-256: once as build does, or as it did, and once in another folder with an empty build
cache. Names are those of the payload and wmcb.exe; without any, all are built, which takes as long as the first build.`,
		RunE: func(cmd *cobra.Command, names []string) error {
			all, err := compareAll(cmd.Context(), cmd.ErrOrStderr(), names)
			if err != nil {
				return err
			}
			return verdict(cmd.OutOrStdout(), all)
		},
	}
}

// verdict lists comparisons and fails when one differs.
func verdict(w io.Writer, all []programs.Comparison) error {
	var errs []error
	for _, c := range all {
		word := "same"
		if !c.Same() {
			word = "DIFFERENT from " + c.Second
			errs = append(errs, fmt.Errorf("%s: %w", c.Name, errNotTheSame))
		}
		if _, err := fmt.Fprintf(w, "%-32s %s %s\n", c.Name, c.First, word); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

func compareAll(ctx context.Context, progress io.Writer, names []string) ([]programs.Comparison, error) {
	rebuilds, err := chosen(names)
	if err != nil {
		return nil, err
	}
	var out []programs.Comparison
	for _, rebuild := range rebuilds {
		c, err := rebuild(ctx, progress)
		if err != nil {
			return nil, err
		}
		out = append(out, c...)
	}
	return out, nil
}
