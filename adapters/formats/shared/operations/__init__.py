"""Operations on whole tables that work alike in each format."""
