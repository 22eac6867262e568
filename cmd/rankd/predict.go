package main

import "github.com/spf13/cobra"

func newPredict() *cobra.Command { return &cobra.Command{Use: "predict", Hidden: true} }
