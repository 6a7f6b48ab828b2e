"""What commands print: tables and sentences for people, JSON documents for programs."""
