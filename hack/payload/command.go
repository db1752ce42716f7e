package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/windowsmachine/operator/pkg/payload"
	standin "github.com/windowsmachine/operator/test/payload"
)

var errFrom = errors.New("give exactly one of --from and --list")

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "payload",
		Short:         "Pack, make and verify the set of files that goes to machines",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(buildCommand(), packCommand(), reproCommand(), standInCommand(), verifyCommand())
	return root
}

func packCommand() *cobra.Command {
	var from, list, out string
	var common entry
	c := &cobra.Command{
		Use:   "pack",
		Short: "Pack files into a store",
		Long: `Pack files into a store: manifest.json and one zstd file for each digest.

With --from every file of a folder is packed, all with the same --version, --licence and --source.
With --list a YAML file names them:

    - file: bin/kubelet.exe      # relative to the list
      name: kubelet.exe          # default: the file's name
      version: v1.37.2
      licence: Apache-2.0        # SPDX
      source: k8s.io/kubernetes
      sha256: 0123…              # optional; the file must have it`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			entries, err := gather(from, list, common)
			if err != nil {
				return err
			}
			s, err := pack(out, entries)
			if err != nil {
				return err
			}
			return show(cmd.OutOrStdout(), s)
		},
	}
	c.Flags().StringVar(&from, "from", "", "folder whose files are packed")
	c.Flags().StringVar(&list, "list", "", "YAML file that names the files")
	c.Flags().StringVar(&out, "out", "", "folder of the store")
	c.Flags().StringVar(&common.Version, "version", "", "version of the files of --from")
	c.Flags().StringVar(&common.Licence, "licence", "", "SPDX licence of the files of --from")
	c.Flags().StringVar(&common.Source, "source", "", "where the files of --from come from")
	required(c, "out")
	return c
}

func gather(from, list string, common entry) ([]entry, error) {
	switch {
	case (from == "") == (list == ""):
		return nil, errFrom
	case list != "":
		return readList(list)
	}
	return readFolder(from, common)
}

func standInCommand() *cobra.Command {
	var out string
	var scale float64
	c := &cobra.Command{
		Use:   "stand-in",
		Short: "Make a store of stand-ins: names and sizes of the real programs, no code",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := standin.Generate(out, scale)
			if err != nil {
				return err
			}
			return show(cmd.OutOrStdout(), s)
		},
	}
	c.Flags().StringVar(&out, "out", "", "folder of the store")
	c.Flags().Float64Var(&scale, "scale", 1, "share of the real sizes, above 0 and at most 1")
	required(c, "out")
	return c
}

func verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify DIR",
		Short: "Read every blob of a store and compare it with the manifest",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := payload.OpenStore(args[0])
			if err != nil {
				return err
			}
			if err := s.Verify(); err != nil {
				return err
			}
			return show(cmd.OutOrStdout(), s)
		},
	}
}

func required(c *cobra.Command, flag string) {
	if err := c.MarkFlagRequired(flag); err != nil {
		panic(fmt.Sprintf("payload: flag %s is not declared: %v", flag, err))
	}
}

// show lists a store, a line a blob, and the sums.
func show(w io.Writer, s *payload.Store) error {
	var plain, compressed int64
	for _, b := range s.Manifest().Blobs {
		plain, compressed = plain+b.Size, compressed+b.CompressedSize
		const row = "%s  %-32s %-10s %9.1f MB %8.1f MB\n"
		if _, err := fmt.Fprintf(w, row, b.SHA256[:12], b.Name, b.Version, mb(b.Size), mb(b.CompressedSize)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%d blobs, %.1f MB, compressed %.1f MB\n", len(s.Manifest().Blobs), mb(plain), mb(compressed))
	return err
}

func mb(n int64) float64 { return float64(n) / 1e6 }
