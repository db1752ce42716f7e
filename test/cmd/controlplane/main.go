package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/windowsmachine/operator/test/controlplane"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:          "controlplane",
		Short:        "A real Kubernetes control plane for tests and demos",
		SilenceUsage: true,
	}
	root.AddCommand(newBuild(), newPath(), newUp())
	return root
}

func newBuild() *cobra.Command {
	return &cobra.Command{
		Use:   "build",
		Short: "Build etcd, kube-apiserver, kube-controller-manager and kubectl unless they are in the cache",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := controlplane.Binaries(cmd.Context(), cmd.ErrOrStderr())
			if err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), dir)
			}
			return err
		},
	}
}

func newPath() *cobra.Command {
	return &cobra.Command{
		Use:   "path",
		Short: "Print the folder of the built programs; fails if they are not built",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, built, err := controlplane.BinariesPath()
			if err != nil {
				return err
			}
			if !built {
				return fmt.Errorf("%s is not built yet: run \"controlplane build\"", dir)
			}
			fmt.Fprintln(cmd.OutOrStdout(), dir)
			return nil
		},
	}
}

func newUp() *cobra.Command {
	var opts controlplane.Options
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run a control plane until SIGINT or SIGTERM, then remove it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts.Progress = cmd.ErrOrStderr()
			return up(cmd, opts)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.Dir, "dir", "", "data folder, absent or empty (default: a temporary one)")
	flags.IntVar(&opts.Port, "port", 0, "the API server's port on 127.0.0.1 (0: a free one)")
	flags.StringVar(&opts.NodeCIDRs, "node-cidrs", "", "give each node a part of this range as its pod CIDR")
	flags.StringVar(&opts.ServiceCIDR, "service-cidr", "", "range of service addresses")
	return cmd
}

func up(cmd *cobra.Command, opts controlplane.Options) error {
	cp, err := controlplane.Start(cmd.Context(), opts)
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "KUBECONFIG=%s\nKUBECTL=%s\nURL=%s\n", cp.KubeconfigPath(), cp.KubectlPath(), cp.URL())
	var failure error
	select {
	case <-cmd.Context().Done():
	case <-cp.Done():
		failure = cp.Err()
	}
	if err := cp.Stop(); err != nil {
		return err
	}
	return failure
}
