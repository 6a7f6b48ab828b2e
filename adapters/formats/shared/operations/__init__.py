"""Operations on whole tables that are the same in each format."""
